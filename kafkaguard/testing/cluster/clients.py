"""Client settings for each client and listener, and JAAS entries."""

from __future__ import annotations

import base64
import json
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkaguard.testing.cluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
}


def login(mechanism: str, **options: str) -> str:
    """Make the entry of a SASL mechanism; quotes and escapes are as in JSON."""
    module = f"org.apache.kafka.common.security.{_MODULES[mechanism]} required"
    quoted = (
        f" {key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in options.items()
    )
    return module + "".join(quoted) + ";"


def unsecured_login(subject: str) -> str:
    """Make the entry that creates an unsigned OAUTHBEARER token for a subject."""
    return login("OAUTHBEARER", unsecuredLoginStringClaim_sub=subject)


_TOKEN_LIFETIME_S = 3600


@dataclass(frozen=True, slots=True)
class Access:
    """What a client needs to connect as one user."""

    bootstrap_servers: str
    security_protocol: str
    mechanism: str | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    authority: Path | None = None


def client_config(client: str, access: Access) -> dict[str, Any]:
    """Return the settings for an access under the client's names.

    Raises:
        ClusterError: There is no such client.
    """
    client = "confluent" if client == "confluent-kafka" else client
    if client not in _WRITERS:
        raise ClusterError(f"no client {client!r}; there are {', '.join(_WRITERS)}")
    return _WRITERS[client](access)


def unsecured_token(subject: str) -> str:
    """Make an unsigned JSON Web Token, which Kafka's unsecured OAUTHBEARER accepts."""
    now = int(time.time())
    claims = {"sub": subject, "iat": now, "exp": now + _TOKEN_LIFETIME_S}
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    encoded = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, ""])


def _kafka_python(access: Access) -> dict[str, Any]:
    config = _python_words(access)
    if access.authority:
        config["ssl_cafile"] = str(access.authority)
    if access.mechanism == "OAUTHBEARER":
        from kafka.net.sasl.oauth import AbstractTokenProvider

        def token(_: Any) -> str:
            return unsecured_token(access.user)

        config["sasl_oauth_token_provider"] = _instance(AbstractTokenProvider, token)
    return config


def _aiokafka(access: Access) -> dict[str, Any]:
    config = _python_words(access)
    if access.authority:
        config["ssl_context"] = ssl.create_default_context(cafile=access.authority)
    if access.mechanism == "OAUTHBEARER":
        from aiokafka.abc import AbstractTokenProvider

        async def token(_: Any) -> str:
            return unsecured_token(access.user)

        config["sasl_oauth_token_provider"] = _instance(AbstractTokenProvider, token)
    return config


def _python_words(access: Access) -> dict[str, Any]:
    """Return the settings that kafka-python and aiokafka have in common."""
    config = {
        "bootstrap_servers": access.bootstrap_servers,
        "security_protocol": access.security_protocol,
    }
    if access.mechanism:
        config["sasl_mechanism"] = access.mechanism
    if access.password:
        config["sasl_plain_username"] = access.user
        config["sasl_plain_password"] = access.password
    return config


def _instance(base: Any, token: Callable[[Any], Any]) -> Any:
    return type("TokenProvider", (base,), {"token": token})()


def _confluent(access: Access) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": access.bootstrap_servers,
        "security.protocol": access.security_protocol,
    }
    if access.authority:
        config["ssl.ca.location"] = str(access.authority)
    if access.mechanism:
        config["sasl.mechanism"] = access.mechanism
    if access.password:
        config["sasl.username"] = access.user
        config["sasl.password"] = access.password
    if access.mechanism == "OAUTHBEARER":
        config["enable.sasl.oauthbearer.unsecure.jwt"] = True
        config["sasl.oauthbearer.config"] = f"principal={access.user}"
    return config


def _spark(access: Access) -> dict[str, Any]:
    return {f"kafka.{key}": value for key, value in _java(access).items()}


def _java(access: Access) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": access.bootstrap_servers,
        "security.protocol": access.security_protocol,
    }
    if access.authority:
        config["ssl.truststore.type"] = "PEM"
        config["ssl.truststore.location"] = str(access.authority)
    if access.mechanism:
        config["sasl.mechanism"] = access.mechanism
        config["sasl.jaas.config"] = _login(access, access.mechanism)
    return config


def _login(access: Access, mechanism: str) -> str:
    if mechanism == "OAUTHBEARER":
        return unsecured_login(access.user)
    return login(mechanism, username=access.user, password=access.password)


_WRITERS = {
    "kafka-python": _kafka_python,
    "confluent": _confluent,
    "aiokafka": _aiokafka,
    "spark": _spark,
}
