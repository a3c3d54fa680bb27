"""Settings of confluent-kafka (librdkafka's or Java's names), in kafkaguard's form."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kafkaguard._errors import ClientConfigurationError
from kafkaguard_adapters.confluent.unsecured_tokens import unsecured_token
from kafkaguard_adapters.wire.client_settings import (
    ALIASES,
    SettingError,
    check_names,
    known_names,
    translate,
)
from kafkaguard_adapters.wire.settings import (
    Settings,
    Tls,
    check_protocol,
    read_bootstrap,
    unusable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard._cluster.reports import Make

_SERVERS = "bootstrap.servers"
_TLS = {
    "ssl.ca.location": "cafile",
    "ssl.ca.pem": "cadata",
    "ssl.certificate.location": "certfile",
    "ssl.key.location": "keyfile",
    "ssl.key.password": "password",
    "ssl.cipher.suites": "ciphers",
}
_SASL = {
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}
_READ = frozenset(
    {
        *_TLS,
        *_SASL,
        "ssl.crl.location",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
        "sasl.mechanism",
        "sasl.oauthbearer.config",
        "enable.sasl.oauthbearer.unsecure.jwt",
    }
)
#: For each setting, the value that does not change how to connect.
_HARMLESS = {
    "sasl.oauthbearer.method": "default",
    "sasl.kerberos.keytab": None,
    "ssl.providers": "",
}
_BEARING = ("ssl.", "sasl.", "enable.ssl.", "enable.sasl.")
_UNUSABLE = ("plugin.library.paths", "connect_cb", "resolve_cb", "ssl_cert_verify_cb")


def setting_names(cls: type) -> frozenset[str] | None:
    """Return the names that settings of a client may have; None: it takes its own."""
    is_own = cls.__module__.partition(".")[0] in ("cimpl", "confluent_kafka")
    return _known_names() if is_own else None


def _known_names() -> frozenset[str]:
    """Return librdkafka's names, and Java's, which are translated."""
    return known_names("java", "librdkafka")


def has_servers(config: Mapping[str, Any]) -> bool:
    """Return whether settings name a broker; librdkafka has no default for it."""
    return any(
        value for name, value in config.items() if ALIASES.get(name, name) == _SERVERS
    )


def read_settings(config: Mapping[str, Any], make: Make) -> Settings:
    """Translate a configuration of confluent-kafka.

    Args:
        config: What the Producer, Consumer or AdminClient was made with.
        make: Makes the errors.

    Raises:
        KafkaGuardError: A setting of the connection cannot be translated.
    """
    try:
        check_names(config, _known_names())
        config = translate(config)
    except SettingError as error:
        raise make(ClientConfigurationError, str(error)) from None
    for name, value in config.items():
        _check(name, value, make)
    has_tls, has_sasl = check_protocol(config.get("security.protocol"), make)
    # librdkafka's own default; it has no name for "none".
    mechanism = config.get("sasl.mechanism", "GSSAPI") if has_sasl else None
    return Settings(
        read_bootstrap(config.get(_SERVERS) or "", make),
        client_id=config.get("client.id") or "kafkaguard",
        tls=_tls(config, make).context if has_tls else None,
        ca=config.get("ssl.ca.location"),
        mechanism=mechanism,
        sasl={ours: config[name] for name, ours in _SASL.items() if name in config},
        token=_token(config, make) if mechanism == "OAUTHBEARER" else None,
    )


def _check(name: str, value: Any, make: Make) -> None:
    if name in _UNUSABLE and value:
        raise unusable(make, name, "leave it out if you do not need it")
    is_new = name.startswith(_BEARING) and name not in _READ
    if is_new and value not in (None, _HARMLESS.get(name)):
        raise unusable(
            make,
            name,
            "kafkaguard does not know what it means. It can use PEM files, a user and "
            "password, or oauth_cb",
        )


def _tls(config: Mapping[str, Any], make: Make) -> Tls:
    given = {ours: config[name] for name, ours in _TLS.items() if name in config}
    algorithm = config.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm not in ("https", "none"):
        raise unusable(
            make, f"ssl.endpoint.identification.algorithm={algorithm}", "https or none"
        )
    return Tls(
        **given,
        crlfile=config.get("ssl.crl.location"),
        check_hostname=algorithm == "https",
        verify=_is_true(config.get("enable.ssl.certificate.verification", True)),
    )


def _is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "1")


def _token(config: Mapping[str, Any], make: Make) -> Any:
    callback = config.get("oauth_cb")
    text = config.get("sasl.oauthbearer.config", "")
    if callback is None:
        if not _is_true(config.get("enable.sasl.oauthbearer.unsecure.jwt", False)):
            raise unusable(make, "sasl.mechanism=OAUTHBEARER", "give oauth_cb with it")
        token = unsecured_token(text, make)
        callback = lambda _: (token,)  # noqa: E731 - as short as it is

    async def fetch() -> tuple[str, Mapping[str, str]]:
        answer = await asyncio.to_thread(callback, text)
        extensions = answer[3] if len(answer) > 3 else {}  # noqa: PLR2004 - confluent's order
        return answer[0], extensions

    return fetch
