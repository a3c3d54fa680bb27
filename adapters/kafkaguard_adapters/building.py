"""Build a client from a factory and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def build(factory: Callable[..., Any], config: Mapping[str, Any]) -> Any:
    """Build a client; names with dots (librdkafka) are passed as one dict."""
    has_dots = any("." in each for each in config)
    return factory(dict(config)) if has_dots else factory(**config)
