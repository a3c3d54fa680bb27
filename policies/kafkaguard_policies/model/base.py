"""The base model of policies: frozen, strict, helpful about names."""

import re
from collections.abc import Iterator
from typing import Any, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from kafkaguard._common.closest import did_you_mean


class Part(BaseModel):
    """A part of a policy: immutable, and without unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True
    )

    @model_validator(mode="wrap")
    @classmethod
    def _name_the_nearest(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self]
    ) -> Self:
        """Add the closest known name to the error of an unknown key."""
        try:
            return handler(data)
        except ValidationError as error:
            raise ValidationError.from_exception_data(
                cls.__name__, [cls._explain(item) for item in error.errors()]
            ) from None

    @classmethod
    def _explain(cls, item: Any) -> InitErrorDetails:
        kind = item["type"].removeprefix(_OWN)
        if kind == "extra_forbidden":
            error = cls._describe_unknown(item)
        elif item["type"].startswith(_OWN):  # an error of the part itself
            error = PydanticCustomError(item["type"], item["msg"])
        elif kind == "model_type":
            text = f"must be a mapping of {', '.join(cls.model_fields)}"
            error = PydanticCustomError(_OWN + kind, text)
        else:
            error = PydanticCustomError(_OWN + kind, _describe(item))
        return InitErrorDetails(type=error, loc=item["loc"], input=item["input"])

    @classmethod
    def _describe_unknown(cls, item: Any) -> PydanticCustomError:
        """Return where an unknown key belongs, or the text of the part that has it.

        Each enclosing part repeats this, so the text of the whole document is used.
        """
        key = str(item["loc"][-1])
        context = item.get("ctx") or {
            "hint": did_you_mean(key, cls.model_fields) or ".",
            "allowed": ", ".join(cls.model_fields),
        }
        if places := list(_find_places(key, cls)):
            context = context | {"hint": f"; {key!r} belongs {' or '.join(places)}."}
        text = "no such setting{hint} Allowed here: {allowed}"
        return PydanticCustomError(_OWN + "extra_forbidden", text, context)


def _find_places(key: str, part: type[Part], path: str = "") -> Iterator[str]:
    """Find the places of a key in this part and in the parts within it."""
    if key in part.model_fields:
        yield f"in {path!r}" if path else "at the top level"
    for name, field in part.model_fields.items():
        for inner in _find_parts(field.annotation):
            yield from _find_places(key, inner, f"{path}.{name}".lstrip("."))


def _find_parts(annotation: Any) -> Iterator[type[Part]]:
    """Find the parts that a field can contain."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        yield annotation
    for inner in get_args(annotation):
        yield from _find_parts(inner)


#: The prefix of error kinds whose text is used unchanged.
_OWN = "policy_"
#: Texts for pydantic's errors that authors of policies understand.
_WORDS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number, without quotes",
    "list_type": "must be a list",
    "missing": "must be given",
    "string_pattern_mismatch": "must be 1 to 64 letters, digits, '.', '_' or '-'",
    "string_too_long": "must be shorter: at most {max_length} characters",
    "string_too_short": "must not be empty",
    "string_type": "must be a text: put it in quotes",
    "tuple_type": "must be a list",
}
_CHOICES = {"enum", "literal_error"}


def _describe(item: Any) -> str:
    context = item.get("ctx", {})
    if item["type"] in _CHOICES:
        return f"must be {context['expected']}{_nearest_choice(item)}"
    if item["type"] == "string_type" and isinstance(item["input"], list | dict):
        kind = "list" if isinstance(item["input"], list) else "mapping"
        return f"must be a text, not a {kind}"
    text = _WORDS.get(item["type"])
    return item["msg"] if text is None else text.format(**context)


def _nearest_choice(item: Any) -> str:
    choices = re.findall("'([^']+)'", item["ctx"]["expected"])
    return did_you_mean(str(item["input"]), choices)
