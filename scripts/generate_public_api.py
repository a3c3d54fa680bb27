"""Write all public names with their signatures, so that changes are visible.

Members of a public base class are listed there only.

``python scripts/generate_public_api.py`` writes the list. With ``--check`` it compares
the list and exits with 1 if it is out of date.
"""

from __future__ import annotations

import enum
import inspect
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PATH = ROOT / "tests/house/public_api.txt"
MODULES = (
    "kafkaguard",
    "kafkaguard.cluster",
    "kafkaguard.errors",
    "kafkaguard.events",
    "kafkaguard.policies",
    "kafkaguard.protocol",
    "kafkaguard.spark",
    "kafkaguard.telemetry",
    "kafkaguard.testing",
)


def listed() -> str:
    """Return the list, with a line for each name and each member of a class."""
    lines = []
    for path in MODULES:
        module = import_module(path)
        lines.append(f"[{path}]")
        for name in sorted(module.__all__):
            lines += _lines(name, getattr(module, name))
        lines.append("")
    return "\n".join(lines)


def _lines(name: str, value: Any) -> list[str]:
    """Describe a name; only kafkaguard's own classes show their members."""
    if not inspect.isclass(value):
        return [f"{name}{_signature(value)}"]
    if issubclass(value, enum.Enum):
        return [f"{name}: {', '.join(value.__members__)}"]
    if issubclass(value, BaseException):
        return [f"{name}({', '.join(base.__name__ for base in value.__bases__)})"]
    bases = [cls for cls in value.__mro__[1:] if cls.__module__ in MODULES]
    inherited = {owner for base in bases for owner in base.__mro__}
    members = {
        each: vars(owner)[each]
        for owner in reversed(value.__mro__)
        if "kafkaguard" in owner.__module__ and owner not in inherited
        for each in vars(owner)
        if not each.startswith("_") and each != "model_config"  # pydantic's own
    }
    shown = [f"  .{each}{_signature(members[each])}" for each in sorted(members)]
    return [f"{name}{_signature(value)}", *shown]


def _signature(value: Any) -> str:
    """Return the parameters with names, kinds and defaults, without types."""
    value = getattr(value, "__func__", value)
    if not callable(value):
        return ""
    try:
        given = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return "(...)"
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in given]
    shown = str(inspect.Signature([_plain(each) for each in bare]))
    return shown.replace("self, ", "").replace("self", "")


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Replace a default that differs between processes by three dots."""
    default = parameter.default
    if default is inspect.Parameter.empty or isinstance(
        default, str | int | float | tuple | type(None)
    ):
        return parameter
    return parameter.replace(default=...)


def main() -> int:
    """Write the list, or with ``--check`` print whether it is out of date."""
    text = listed()
    if PATH.exists() and PATH.read_text() == text:
        return 0
    if "--check" in sys.argv:
        print(f"{PATH.relative_to(ROOT)} is out of date: run `make generate`")
        return 1
    PATH.write_text(text)
    print(f"wrote {PATH.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
