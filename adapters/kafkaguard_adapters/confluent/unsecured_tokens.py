"""Unsigned OAUTHBEARER tokens, as librdkafka makes them for tests."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING

from kafkaguard_adapters.wire.settings import unusable

if TYPE_CHECKING:
    from kafkaguard._cluster.reports import Make

_LIFETIME_S = 3600


def unsecured_token(config: str, make: Make) -> str:
    """Make a token from ``sasl.oauthbearer.config`` (``principal=...``).

    Raises:
        KafkaGuardError: The setting has more than a principal, or has none.
    """
    parts = dict(part.partition("=")[::2] for part in config.split())
    principal = parts.pop("principal", None)
    if principal is None or parts:
        names = ", ".join(parts) or "a missing principal"
        raise unusable(make, f"sasl.oauthbearer.config with {names}", "give oauth_cb")
    now = int(time.time())
    claims = {"sub": principal, "iat": now, "exp": now + _LIFETIME_S}
    encoded = [_encode({"alg": "none"}), _encode(claims), ""]
    return ".".join(encoded)


def _encode(part: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
