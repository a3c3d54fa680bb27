"""Settings of Kafka clients: from Java's names to librdkafka's.

This module reads all settings that are given by Kafka's own names: Spark's ``kafka.*``,
the files of the command line, and ``config=`` of a guarded confluent-kafka client.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from kafkaguard._common.closest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping


_MODULE = re.compile(
    r"\.(?:PlainLoginModule|ScramLoginModule)\s+"
    r"(?:required|requisite|sufficient|optional)\b(?P<options>.*)",
    re.DOTALL | re.IGNORECASE,
)
_OPTION = re.compile(
    r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""",
    re.DOTALL,
)
_JAAS_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


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
        name: _unescape(double or single or bare, _JAAS_ESCAPE)
        for name, double, single, bare in _OPTION.findall(module["options"])
    }
    if not {"username", "password"} <= options.keys():
        return None
    return options["username"], options["password"]


#: Second names of settings in librdkafka, and names that differ in Java.
ALIASES: Final = {
    "max.in.flight": "max.in.flight.requests.per.connection",
    "max.request.size": "message.max.bytes",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_ENTRY: Final = re.compile(r"((?:\\.|[^\\=:\s])+)(\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)
_LINE: Final = re.compile(r"line \d+")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class SettingError(ValueError):
    """A setting that cannot be used.

    Attributes:
        name: The name of the setting.
        why: The reason, and what to write instead. It never contains the value.
    """

    def __init__(self, name: str, why: str) -> None:
        place = (
            name if _LINE.fullmatch(name) else repr(name)
        )  # shows a space at its end
        super().__init__(f"{place}: {why}")
        self.name = name
        self.why = why


def read_properties(text: str) -> dict[str, tuple[str, int]]:
    """Read a file of settings, in the format of Java's ``Properties``.

    Args:
        text: The text of the file.

    Returns:
        The value of each setting, and the number of its line.

    Raises:
        SettingError: A line has no value, or a setting is given twice. The ``name`` of
            the error is ``line`` and the number of the line.
    """
    settings: dict[str, tuple[str, int]] = {}
    lines = enumerate(re.split(r"\r\n?|\n", text.removeprefix("\ufeff")), 1)
    for number, line in lines:
        entry = line.strip()
        if not entry or entry[0] in "#!":
            continue
        while _continues(entry):
            entry = entry[:-1] + next(lines, (0, ""))[1].strip()
        parts = _ENTRY.fullmatch(entry)
        if parts is None or not parts[2]:
            raise SettingError(f"line {number}", "write it as name=value")
        name = _unescape(parts[1])
        if name in settings:
            line_name = f"line {number}"
            raise SettingError(
                line_name, f"{name} is already set in line {settings[name][1]}"
            )
        settings[name] = _unescape(parts[3]), number
    return settings


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str, escape: re.Pattern[str] = _ESCAPE) -> str:
    def replace(match: re.Match[str]) -> str:
        *codes, character = match.groups()
        if any(codes):
            return chr(int(codes[0], 16))
        return _CONTROLS.get(character, character)

    return escape.sub(replace, text)


@cache
def known_names(*clients: str) -> frozenset[str]:
    """Return the names of all settings of ``"java"``, ``"librdkafka"`` or both."""
    text = files(__package__).joinpath("setting_names.txt").read_text("ascii")
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return frozenset(name for name, *owners in lines if {*owners} & {*clients})


def check_names(names: Iterable[str], allowed: Collection[str]) -> None:
    """Refuse names that the client does not have: a misspelt setting does nothing.

    Raises:
        SettingError: A name is not known; the text has the closest known name.
    """
    for name in names:
        if name not in allowed:
            hint = did_you_mean(str(name), allowed)
            raise SettingError(str(name), f"Kafka's client has no such setting{hint}")


def translate(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert Java's settings to librdkafka's; other settings are not changed.

    Args:
        values: Values by name, with Java's names or librdkafka's.

    Raises:
        SettingError: A setting cannot be translated, or is given under two names.
    """
    translated: dict[str, Any] = {}
    for name, value in values.items():
        settings = _translate_setting(name, value, values)
        for duplicate in settings.keys() & translated.keys():
            raise SettingError(duplicate, "it is given under two names: leave one out")
        translated |= settings
    return translated


def _translate_setting(
    name: str, value: Any, values: Mapping[str, Any]
) -> dict[str, Any]:
    if name not in _TRANSLATORS:
        return {ALIASES.get(name, name): value}
    kind = values.get(re.sub(r"\.(?:location|password)$", ".type", name), "")
    return _TRANSLATORS[name](str(value), str(kind).upper())


def _login(value: str, _: str) -> dict[str, str]:
    credentials = login(value)
    if credentials is None:
        raise SettingError(
            "sasl.jaas.config",
            "only PlainLoginModule and ScramLoginModule with username and password can "
            "be translated; use sasl.username and sasl.password",
        )
    return dict(zip(("sasl.username", "sasl.password"), credentials, strict=True))


def _algorithm(value: str, _: str) -> dict[str, str]:
    return {"ssl.endpoint.identification.algorithm": value.lower() or "none"}


def _trust_store(path: str, kind: str) -> dict[str, str]:
    if kind != "PEM" and not path.endswith(".pem"):
        raise SettingError(
            "ssl.truststore.location",
            "Java key stores cannot be read here; export the certificates to a PEM "
            "file and name it with ssl.ca.location",
        )
    return {"ssl.ca.location": path}


def _key_store(path: str, kind: str) -> dict[str, str]:
    if kind == "PEM":
        return {"ssl.certificate.location": path, "ssl.key.location": path}
    return {"ssl.keystore.location": path}


def _key_store_type(_: str, kind: str) -> dict[str, str]:
    if kind not in ("PEM", "PKCS12"):
        raise SettingError(
            "ssl.keystore.type",
            "only PKCS12 and PEM can be read here; or name PEM files with "
            "ssl.certificate.location and ssl.key.location",
        )
    return {}


def _trust_store_password(_: str, __: str) -> dict[str, str]:
    text = "name a PEM file with ssl.ca.location instead"
    raise SettingError("ssl.truststore.password", text)


#: Functions from the value of a Java setting, and the type of its key store, to
#: librdkafka's settings, by the name of the Java setting.
_TRANSLATORS: Final[dict[str, Callable[[str, str], dict[str, str]]]] = {
    "sasl.jaas.config": _login,
    "ssl.endpoint.identification.algorithm": _algorithm,
    "ssl.keystore.location": _key_store,
    "ssl.keystore.type": _key_store_type,
    "ssl.truststore.location": _trust_store,
    "ssl.truststore.password": _trust_store_password,
    "ssl.truststore.type": lambda _, __: {},
}
