"""Read the user name and password from a JAAS line."""

from __future__ import annotations

import re

_MODULE = re.compile(
    r"\.(?:PlainLoginModule|ScramLoginModule)\s+"
    r"(?:required|requisite|sufficient|optional)\b(?P<options>.*)",
    re.DOTALL | re.IGNORECASE,
)
_OPTION = re.compile(
    r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CONTROL = {"n": "\n", "r": "\r", "t": "\t"}


def login(line: str) -> tuple[str, str] | None:
    """Read the user name and password, in either order and with either kind of quotes.

    Args:
        line: The value of ``sasl.jaas.config``.

    Returns:
        User name and password; None if the line names another login module, or if one
        of the two is missing.
    """
    module = _MODULE.search(line)
    if module is None:
        return None
    options = {
        name: _plain(double or single or bare)
        for name, double, single, bare in _OPTION.findall(module["options"])
    }
    if not {"username", "password"} <= options.keys():
        return None
    return options["username"], options["password"]


def _plain(value: str) -> str:
    return _ESCAPE.sub(lambda found: _CONTROL.get(found[1], found[1]), value)
