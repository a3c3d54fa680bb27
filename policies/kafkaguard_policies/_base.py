"""What every part of a policy has in common: frozen, strict, helpful about names."""

import re
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
        if item["type"].startswith(_SAID):  # by the part itself
            said = PydanticCustomError(item["type"], item["msg"])
            return InitErrorDetails(type=said, loc=item["loc"], input=item["input"])
        kind, text = item["type"], _in_words(item)
        if kind == "extra_forbidden" and len(item["loc"]) == 1:
            text = cls._unknown(str(item["loc"][0]))
        elif kind == "model_type" and not item["loc"]:
            text = f"must be a mapping of {', '.join(cls.model_fields)}"
        said = PydanticCustomError(_SAID + kind, text)
        return InitErrorDetails(type=said, loc=item["loc"], input=item["input"])

    @classmethod
    def _unknown(cls, key: str) -> str:
        near = get_close_matches(key.lower(), cls.model_fields, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"no such setting; {hint}Allowed here: {', '.join(cls.model_fields)}"


#: Begins the kind of what needs no other words.
_SAID = "policy_"
#: In words of a policy's author what pydantic says in its own.
_WORDS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number, without quotes",
    "missing": "must be given",
    "string_pattern_mismatch": "must be 1 to 64 letters, digits, '.', '_' or '-'",
    "string_too_long": "must be shorter: at most {max_length} characters",
    "string_too_short": "must not be empty",
    "string_type": "must be a text: put it in quotes",
    "tuple_type": "must be a list",
}
_CHOICES = {"enum", "literal_error"}


def _in_words(item: Any) -> str:
    context = item.get("ctx", {})
    if item["type"] in _CHOICES:
        return f"must be {context['expected']}{_nearest_choice(item)}"
    known = _WORDS.get(item["type"])
    return item["msg"] if known is None else known.format(**context)


def _nearest_choice(item: Any) -> str:
    choices = re.findall("'([^']+)'", item["ctx"]["expected"])
    given = str(item["input"]).replace("-", "_")
    by_lower = {choice.lower(): choice for choice in choices}
    near = get_close_matches(given.lower(), by_lower, n=1, cutoff=0.75)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""
