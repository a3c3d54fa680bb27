"""Settings of any aiokafka client, in kafkaguard's form."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from kafkaguard_adapters.wire.settings import (
    Settings,
    check_protocol,
    read_bootstrap,
    unusable,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from kafkaguard._cluster.reports import Make

_SASL = (
    "sasl_plain_username",
    "sasl_plain_password",
    "sasl_kerberos_service_name",
    "sasl_kerberos_domain_name",
)
_READ = (
    "bootstrap_servers",
    "client_id",
    "security_protocol",
    "ssl_context",
    "sasl_mechanism",
    "sasl_oauth_token_provider",
    *_SASL,
)


def setting_names(cls: type) -> frozenset[str] | None:
    """Return a client's setting names; None: the user's class may have others."""
    is_own = cls.__module__.startswith("aiokafka.")
    return frozenset(signature(cls).parameters) if is_own else None


def config_of(client: Any) -> dict[str, Any]:
    """Read the settings that a producer, consumer or admin was made with."""
    inner = inner_client(client)
    return {name: getattr(inner, f"_{name}") for name in _READ}


def loop_of(client: Any) -> asyncio.AbstractEventLoop | None:
    """Return the event loop that a producer, consumer or admin belongs to.

    None: this version of aiokafka does not show it.
    """
    return getattr(inner_client(client), "_loop", None)


def is_open(client: Any) -> bool:
    """Return whether a client runs tasks in its event loop: start() succeeded."""
    return getattr(inner_client(client), "_sync_task", None) is not None


def inner_client(client: Any) -> Any:
    """Return the client of a producer, consumer or admin that has the connections."""
    return getattr(client, "_client", None) or getattr(client, "client", None)


def consumer_config_of(consumer: Any) -> dict[str, Any]:
    """Read a consumer's settings for the look-up of offsets."""
    names = (
        "auto_offset_reset",
        "group_id",
        "isolation_level",
        "loop",
        "request_timeout_ms",
    )
    return {name: getattr(consumer, f"_{name}") for name in names}


def read_settings(config: Mapping[str, Any], make: Make) -> Settings:
    """Translate settings of aiokafka.

    Args:
        config: Keyword arguments of any client of aiokafka.
        make: Makes the errors.

    Raises:
        KafkaGuardError: A setting of the connection cannot be translated.
    """
    for name, value in config.items():
        if name.startswith(("ssl_", "sasl_")) and name not in _READ and value:
            raise unusable(make, name, "kafkaguard does not know what it means")
    has_tls, has_sasl = check_protocol(config.get("security_protocol"), make)
    context: Any = config.get("ssl_context")
    if has_tls and context is None:
        raise unusable(make, "ssl_context=None", "aiokafka's TLS needs a context")
    mechanism = (config.get("sasl_mechanism") or "PLAIN") if has_sasl else None
    provider = config.get("sasl_oauth_token_provider")
    return Settings(
        read_bootstrap(config.get("bootstrap_servers") or "localhost", make),
        client_id=config.get("client_id") or "kafkaguard",
        tls=(lambda: context) if has_tls else None,
        mechanism=mechanism,
        sasl={name: config[name] for name in _SASL if config.get(name) is not None},
        token=_token(provider) if mechanism == "OAUTHBEARER" and provider else None,
    )


def _token(provider: Any) -> Any:
    async def fetch() -> tuple[str, Mapping[str, str]]:
        return await provider.token(), provider.extensions()

    return fetch
