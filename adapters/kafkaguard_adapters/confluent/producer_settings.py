"""The settings of a producer, as far as the guard was given them."""

from __future__ import annotations

import inspect
from gc import get_referents
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.facts import Traits
from kafkaguard.errors import ClientConfigurationError
from kafkaguard_adapters.confluent.callbacks import Callbacks, Chained
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.wire.client_settings import ALIASES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TIMEOUT = "delivery.timeout.ms"
_ONLY_ERRORS = "delivery.report.only.error"
#: Callbacks that librdkafka takes only when the producer is built.
CALLBACKS = ("error_cb", "stats_cb", "throttle_cb")
_DEFAULTS = {_TIMEOUT: 300_000, "message.max.bytes": 1_000_000}


class ProducerSettings:
    """Settings of a producer.

    Args:
        config: What it was made with; None: that is not known.

    Attributes:
        is_known: Whether they are known at all.
        hears_errors: Whether the guard is told of lost connections.
        has_error_cb: Whether the application is, too.
        on_delivery: The callback of records that are given none.
        only_errors: A callback is called for an error only.
        transactional_id: See Kafka.
    """

    def __init__(self, config: Mapping[str, Any] | None) -> None:
        self.is_known = config is not None
        self._config = {ALIASES.get(k, k): v for k, v in (config or {}).items()}
        self._chained = {
            name: callback
            for name in CALLBACKS
            if isinstance(callback := self._config.get(name), Chained)
        }
        hears = self._chained.get("error_cb")
        self.hears_errors = hears is not None
        self.has_error_cb = hears is not None and hears.own is not None
        self.on_delivery = self._config.get("on_delivery")
        self.only_errors = isinstance(config, Prepared) and config.only_errors
        self.transactional_id = self._config.get("transactional.id")

    def hear(self, on_error: Callable[[Any], object]) -> None:
        """Have errors of the client told, where the guard has built it."""
        if self.hears_errors:
            self._chained["error_cb"].hear = on_error

    def divert(self, callbacks: Callbacks) -> None:
        """Have the application's own callbacks called where it polls."""
        for callback in self._chained.values():
            callback.callbacks = callbacks

    def traits(self, *, replaceable: bool) -> Traits:
        """Return what a producer with these settings can do and tell."""
        timeout = self._number(_TIMEOUT) / 1000 or float("inf")
        compression = self._config.get("compression.type") or self._config.get(
            "compression.codec"
        )
        is_transactional = bool(self.transactional_id)
        return Traits(
            client=errors.client,
            delivery_timeout=timeout,
            timeout_setting=_TIMEOUT,
            largest_request=int(self._number("message.max.bytes")),
            compresses=compression not in (None, "none") or not self.is_known,
            idempotent=is_transactional or self.is_true("enable.idempotence"),
            transactional=is_transactional,
            replaceable=replaceable,
        )

    def is_true(self, name: str) -> bool:
        """Return whether a setting is on."""
        return str(self._config.get(name, False)).lower() in ("true", "1")

    def _number(self, name: str) -> float:
        return float(self._config.get(name, _DEFAULTS[name]))

    def check(self, client: Any, *, is_ours: bool) -> None:
        """Refuse settings with which the guard would lose something.

        Args:
            client: The producer.
            is_ours: The guard has built it.

        Raises:
            ClientConfigurationError: They are such.
        """
        if not is_ours and self.is_true(_ONLY_ERRORS):
            raise errors.make(
                ClientConfigurationError,
                f"guard(): {_ONLY_ERRORS} hides which records were delivered. Leave it "
                f"out, or use guard(factory=..., config={...}): your callbacks are "
                "then still called for errors only",
            )
        if not self.is_known and any(map(_may_be_on_delivery, get_referents(client))):
            raise errors.make(
                ClientConfigurationError,
                "guard(): this producer has on_delivery in its settings, which the "
                "guard cannot read from a producer of confluent-kafka, so the "
                "callback would no longer be called: use guard(producer, "
                "config={...}) with the producer's settings",
            )


def _may_be_on_delivery(referent: Any) -> bool:
    """Return whether an object takes an error and a message: no other callback does."""
    if not callable(referent) or isinstance(referent, type):
        return False
    try:
        inspect.signature(referent).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


class Prepared(dict[str, Any]):
    """Settings of which the guard has chained or changed some.

    Attributes:
        only_errors: The application wants no callback of a delivered record.
    """

    only_errors = False


def prepare(config: Mapping[str, Any]) -> Prepared:
    """Chain the callbacks that librdkafka takes only when the producer is built.

    Each record is reported, since the guard accounts for each.
    """
    prepared = Prepared(config)
    for name in CALLBACKS:
        if name == "error_cb" or config.get(name) is not None:
            prepared[name] = Chained(config.get(name))
    prepared.only_errors = ProducerSettings(config).is_true(_ONLY_ERRORS)
    if prepared.only_errors:
        prepared[_ONLY_ERRORS] = False
    return prepared
