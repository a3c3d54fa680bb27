"""The settings of a producer, as far as the guard knows them."""

from __future__ import annotations

import inspect
from gc import get_referents
from typing import TYPE_CHECKING, Any

from kafkaguard._common.logs import Log
from kafkaguard._delivery.facts import Traits
from kafkaguard._errors import ClientConfigurationError
from kafkaguard_adapters.confluent.attempt_log import IDEMPOTENT, OTHER, AttemptLog
from kafkaguard_adapters.confluent.callbacks import Callbacks, Chained, ErrorLog
from kafkaguard_adapters.confluent.client_log import LEVEL, LOGGER
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.wire.client_settings import ALIASES

if TYPE_CHECKING:
    from collections.abc import Mapping

_log = Log("producer")
_TIMEOUT = "delivery.timeout.ms"
_ERROR_CB = "error_cb"
_BATCH = "batch.size"
_ONLY_ERRORS = "delivery.report.only.error"
#: Callbacks that librdkafka takes only when the producer is built.
CALLBACKS = ("stats_cb", "throttle_cb")
_DEFAULTS = {
    _TIMEOUT: 300_000,
    _BATCH: 1_000_000,
    "message.max.bytes": 1_000_000,
    "retry.backoff.max.ms": 1_000,
    "retry.backoff.ms": 100,
    "transaction.timeout.ms": 60_000,
}
_DEBUG = "debug"
#: librdkafka's default of ``log_level``; ``debug`` raises it to the highest.
_DEFAULT_LEVEL = 6
#: librdkafka draws each wait before a retry from 0.8 to 1.2 of the setting.
_LEAST_WAIT = 0.75


class ProducerSettings:
    """Settings of a producer.

    Args:
        config: What the producer was made with; None: unknown.

    Attributes:
        is_known: Whether the settings are known.
        error_log: Keeps the client's connection errors; None: the guard does not get
            them.
        attempt_log: Reads which requests the client repeats; None: it does not tell.
        on_delivery: The callback of records that have none.
        only_errors: Whether callbacks are called for errors only.
        transactional_id: ``transactional.id``; None: the producer has none.
        transaction_timeout: ``transaction.timeout.ms``, in seconds.
    """

    def __init__(self, config: Mapping[str, Any] | None) -> None:
        self.is_known = config is not None
        self._config = {ALIASES.get(k, k): v for k, v in (config or {}).items()}
        self._is_warned = False
        self._chained = {
            name: callback
            for name in CALLBACKS
            if isinstance(callback := self._config.get(name), Chained)
        }
        self.error_log = config.error_log if isinstance(config, Prepared) else None
        self.attempt_log = config.attempt_log if isinstance(config, Prepared) else None
        self.on_delivery = self._config.get("on_delivery")
        self.only_errors = isinstance(config, Prepared) and config.only_errors
        self.transactional_id = self._config.get("transactional.id")
        self.transaction_timeout = self._number("transaction.timeout.ms") / 1000

    def divert(self, callbacks: Callbacks) -> None:
        """Let the application's own callbacks run in its polls only."""
        for callback in self._chained.values():
            callback.callbacks = callbacks

    def traits(self, *, replaceable: bool) -> Traits:
        """Return what a producer with these settings can do and report."""
        timeout = self._number(_TIMEOUT) / 1000 or float("inf")
        compression = self._config.get("compression.type") or self._config.get(
            "compression.codec"
        )
        return Traits(
            client=errors.client,
            delivery_timeout=timeout,
            timeout_setting=_TIMEOUT,
            largest_request=int(self._number("message.max.bytes")),
            compresses=compression not in (None, "none") or not self.is_known,
            transactional=bool(self.transactional_id),
            replaceable=replaceable,
            fails_batches=False,
            repeats=float(self._config.get("retries", 0)) > 0,
        )

    @property
    def retry_s(self) -> float:
        """Seconds before which the client does not send a batch again."""
        names = ("retry.backoff.ms", "retry.backoff.max.ms")
        return _LEAST_WAIT * min(map(self._number, names)) / 1000

    @property
    def repeats(self) -> bool:
        """Whether the client sends a record again that got no answer."""
        return float(self._config.get("retries", 1)) > 0

    @property
    def is_idempotent(self) -> bool:
        """Whether the producer numbers its records."""
        return bool(self.transactional_id) or self.is_true("enable.idempotence")

    def warn_of_batch_size(self, topic: str, most: int) -> None:
        """Warn once of batches that may be larger than a topic allows.

        Args:
            topic: The topic.
            most: Its ``max.message.bytes``.
        """
        size = int(self._number(_BATCH))
        if size > most and not self._is_warned:
            self._is_warned = True
            _log.warning(
                "batch_larger_than_message",
                "%s (%d) is larger than max.message.bytes (%d) of topic %s: the broker "
                "may refuse a batch of records each of which it would accept; "
                "%s = %d works",
                _BATCH,
                size,
                most,
                topic,
                _BATCH,
                most,
                topic=topic,
                batch_size=size,
                max_message_bytes=most,
            )

    def is_true(self, name: str) -> bool:
        """Return whether a setting is on."""
        return str(self._config.get(name, False)).lower() in ("true", "1")

    def _number(self, name: str) -> float:
        return float(self._config.get(name, _DEFAULTS[name]))

    def check(self, client: Any, *, is_ours: bool) -> None:
        """Refuse settings that would hide outcomes or callbacks from the guard.

        Args:
            client: The producer.
            is_ours: Whether the guard has built the producer.

        Raises:
            ClientConfigurationError: The producer has such a setting.
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
    """Return whether a callable takes two arguments, as only this callback does."""
    if not callable(referent) or isinstance(referent, type):
        return False
    try:
        inspect.signature(referent).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


class Prepared(dict[str, Any]):
    """Settings in which the guard has chained callbacks or changed values.

    Attributes:
        only_errors: Whether the application wants callbacks for errors only.
        error_log: Keeps the client's errors.
        attempt_log: Reads which requests the client repeats.
    """

    only_errors = False
    error_log: ErrorLog | None = None
    attempt_log: AttemptLog | None = None


def prepare(config: Mapping[str, Any]) -> Prepared:
    """Chain the callbacks that librdkafka takes only when the producer is built.

    ``delivery.report.only.error`` is switched off, because the guard needs a report for
    each record.
    """
    prepared = Prepared(config)
    for name in CALLBACKS:
        if config.get(name) is not None:
            prepared[name] = Chained(config[name])
    prepared.error_log = ErrorLog(config.get(_ERROR_CB))
    prepared[_ERROR_CB] = prepared.error_log.callback
    settings = ProducerSettings(config)
    if not settings.transactional_id:
        _log_attempts(prepared, IDEMPOTENT if settings.is_idempotent else OTHER)
    prepared.only_errors = settings.is_true(_ONLY_ERRORS)
    if prepared.only_errors:
        prepared[_ONLY_ERRORS] = False
    return prepared


def _log_attempts(prepared: Prepared, context: str) -> None:
    """Let librdkafka log which requests it repeats; the user's log stays as it is.

    No record of a transaction is sent again, so its producers need not.
    """
    log = prepared.attempt_log = AttemptLog(prepared.get(LOGGER))
    contexts = prepared.get(_DEBUG)
    if not contexts:
        level = str(prepared.get(LEVEL))
        log.most = int(level) if level.isdecimal() else _DEFAULT_LEVEL
    prepared[_DEBUG] = f"{contexts},{context}" if contexts else context
    prepared[LOGGER] = log
