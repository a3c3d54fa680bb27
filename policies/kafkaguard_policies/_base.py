"""What every part of a policy has in common: frozen, strict, helpful about names."""

from difflib import get_close_matches
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError


class Part(BaseModel):
    """A part of a policy: cannot be changed, and takes no key that it does not know."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True
    )

    @model_validator(mode="wrap")
    @classmethod
    def _name_the_nearest(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self]
    ) -> Self:
        """Say for an unknown key which one may have been meant."""
        try:
            return handler(data)
        except ValidationError as error:
            raise ValidationError.from_exception_data(
                cls.__name__, [cls._explained(item) for item in error.errors()]
            ) from None

    @classmethod
    def _explained(cls, item: Any) -> InitErrorDetails:
        kind, text = item["type"], item["msg"]
        if kind == "extra_forbidden" and len(item["loc"]) == 1:
            text = cls._unknown(str(item["loc"][0]))
            kind = "unknown_key"
        elif kind == "model_type" and not item["loc"]:
            kind = "not_a_mapping"
            text = f"must be a mapping of {', '.join(cls.model_fields)}"
        said = PydanticCustomError(kind, text)
        return InitErrorDetails(type=said, loc=item["loc"], input=item["input"])

    @classmethod
    def _unknown(cls, key: str) -> str:
        near = get_close_matches(key.lower(), cls.model_fields, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"no such setting; {hint}Allowed here: {', '.join(cls.model_fields)}"
