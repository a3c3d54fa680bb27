"""JAAS entries for brokers and Java clients."""

from __future__ import annotations

import json

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
