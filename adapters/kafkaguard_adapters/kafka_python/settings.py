"""Settings of any kafka-python client, in kafkaguard's form."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer

from kafkaguard_adapters.wire.settings import (
    Settings,
    Tls,
    check_protocol,
    read_bootstrap,
    unusable,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from kafkaguard._cluster.reports import Make

_TLS = {
    "ssl_cafile": "cafile",
    "ssl_certfile": "certfile",
    "ssl_keyfile": "keyfile",
    "ssl_password": "password",
    "ssl_crlfile": "crlfile",
    "ssl_check_hostname": "check_hostname",
}
_SASL = (
    "sasl_plain_username",
    "sasl_plain_password",
    "sasl_kerberos_name",
    "sasl_kerberos_service_name",
    "sasl_kerberos_domain_name",
)
_READ = frozenset(
    {*_TLS, *_SASL, "ssl_context", "sasl_mechanism", "sasl_oauth_token_provider"}
)
#: Settings that could lead the guard to other brokers, with the value that is safe.
_UNUSABLE = {
    "client_dns_lookup": "use_all_dns_ips",
    "proxy_url": None,
    "socks5_proxy": None,
}


def setting_names(cls: type) -> frozenset[str] | None:
    """Return the names of a client's settings; None for a subclass with its own."""
    names = getattr(cls, "DEFAULT_CONFIG", {})
    return frozenset(names) if cls.__module__.startswith("kafka.") else None


def settings_of(producer: Any) -> dict[str, Any] | None:
    """Read the settings of a producer; None: its class has an ``__init__`` of its own.

    ``api_version`` is left out, because each producer finds it out itself.
    """
    if type(producer).__init__ is not KafkaProducer.__init__:
        return None
    names = KafkaProducer.DEFAULT_CONFIG.keys() - {"api_version"}
    return {name: producer.config[name] for name in names if name in producer.config}


def read_settings(config: Mapping[str, Any], make: Make) -> Settings:
    """Translate the settings of a KafkaAdminClient, KafkaProducer or KafkaConsumer.

    Args:
        config: Keyword arguments, or a client's ``config``.
        make: Makes the errors.

    Raises:
        KafkaGuardError: A setting that affects the connection cannot be translated.
    """
    for name, value in config.items():
        _check(name, value, make)
    has_tls, has_sasl = check_protocol(config.get("security_protocol"), make)
    mechanism = config.get("sasl_mechanism") if has_sasl else None
    if has_sasl and not mechanism:
        raise unusable(make, "sasl_mechanism=None", "name the mechanism")
    provider = config.get("sasl_oauth_token_provider")
    return Settings(
        read_bootstrap(config.get("bootstrap_servers") or "localhost", make),
        client_id=config.get("client_id") or "kafkaguard",
        tls=_tls(config) if has_tls else None,
        ca=config.get("ssl_cafile"),
        mechanism=mechanism,
        sasl={name: config[name] for name in _SASL if config.get(name) is not None},
        token=_token(provider) if mechanism == "OAUTHBEARER" and provider else None,
    )


def _check(name: str, value: Any, make: Make) -> None:
    if name in _UNUSABLE and value != _UNUSABLE[name]:
        raise unusable(make, name, "build a client without it for log_dirs and lag")
    is_new = name.startswith(("ssl_", "sasl_")) and name not in _READ
    if is_new and value is not None:
        raise unusable(make, name, "kafkaguard does not know what it means")


def _tls(config: Mapping[str, Any]) -> Callable[[], ssl.SSLContext]:
    context = config.get("ssl_context")
    if context is not None:
        return lambda: context
    values = {ours: config[name] for name, ours in _TLS.items() if name in config}
    return Tls(**values).context


def _token(provider: Any) -> Any:
    async def fetch() -> tuple[str, Mapping[str, str]]:
        token = await asyncio.to_thread(provider.token)
        return token, provider.extensions()

    return fetch
