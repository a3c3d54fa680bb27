"""Refuse records without a key for compacted topics (KIP-135)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kafkaguard._common.logs import Log
from kafkaguard._errors import InvalidRecordError, InvalidRecordKeyError
from kafkaguard._verdicts.classification import classify
from kafkaguard_adapters.asking.topic_facts import AwaitedFactsLookup, TopicFactsLookup

if TYPE_CHECKING:
    from kafkaguard_adapters.client_errors import ClientErrors
    from kafkaguard_adapters.producing.application_calls import ApplicationCalls
    from kafkaguard_policies.retry_policy import RetryPolicy

_Lookup = TypeVar("_Lookup")
_log = Log("producer")

#: Texts that some serialisers make of None. All these records then share one "key".
_DISGUISES = frozenset({b"null", b"None"})


class LetterCheck(Protocol):
    """The check that ``send`` makes, for dead letters, which are not sent by it."""

    def check_letter(self, topic: str, key: bytes | None) -> Any:
        """Refuse a missing key for a compacted topic: it would fail the whole batch.

        The method of a client whose users await is a coroutine.

        Raises:
            InvalidRecordKeyError: The topic is compacted and the key is missing.
        """


def is_disguise(serialized: Any) -> bool:
    """Return whether a serialised key may have been made from None."""
    return serialized in _DISGUISES


class _Check(Generic[_Lookup]):
    """Looks up whether a topic is compacted, before it refuses a record.

    Args:
        lookup: Looks up and caches which topics are compacted.
        errors: Makes the client's errors.
        policy: Says whether to refuse such a record, and one whose key of None a
            serialiser has turned into the text ``null`` or ``None``.
        transactional: Whether the producer is transactional; then a refused record
            fails the whole transaction.

    Attributes:
        is_on: Whether records without a key are refused at all.
        minds_disguises: Whether keys of None that a serialiser turned into text are
            checked.
    """

    def __init__(
        self,
        lookup: _Lookup,
        errors: ClientErrors,
        policy: RetryPolicy,
        *,
        transactional: bool = False,
    ) -> None:
        self._lookup = lookup
        self._errors = errors
        self._verdict = classify(
            InvalidRecordError.code,
            api="Produce",
            null_key=True,
            transactional=transactional,
        )
        self._disguised = policy.disguised_null_key
        self._warned: set[str] = set()
        self.is_on = policy.null_key == "reject"
        self.minds_disguises = self.is_on and self._disguised != "send"

    def _refuse(self, topic: str, *, is_disguised: bool) -> None:
        if is_disguised and self._disguised == "warn":
            if topic not in self._warned:
                self._warned.add(topic)
                _log.warning(
                    "disguised_null_key",
                    "the key serialiser turns a key of None into text; topic %s is "
                    "compacted and keeps only the last of all such records",
                    topic,
                    topic=topic,
                )
            return
        raise self._errors.make(
            InvalidRecordKeyError,
            "topic is compacted and the record has no key; nothing was sent",
            api="Produce",
            topic=topic,
            verdict=self._verdict,
        )


class AwaitedNullKeyCheck(_Check[AwaitedFactsLookup]):
    """Refuses records without a key for compacted topics, in an event loop."""

    async def check(self, topic: str, *, is_disguised: bool = False) -> None:
        """Check a record without a key before it is sent.

        Args:
            topic: The topic of the record.
            is_disguised: Whether a serialiser turned the key of None into text.

        Raises:
            InvalidRecordKeyError: The topic is compacted.
        """
        if self.is_on and (await self._lookup.facts(topic)).compacted:
            self._refuse(topic, is_disguised=is_disguised)


class NullKeyCheck(_Check[TopicFactsLookup]):
    """Refuses records without a key for compacted topics."""

    def error_of(
        self, app_calls: ApplicationCalls, *record: Any
    ) -> InvalidRecordKeyError | None:
        """Return the error that :meth:`check` raises for a record, or None.

        Any other exception is logged: a bug of the guard must not fail a send.
        """
        try:
            self.check(*record)
        except InvalidRecordKeyError as error:
            return error
        except Exception as error:  # noqa: BLE001 - see above
            text = "the check for a null key failed; the record is sent"
            app_calls.failed(text, error)
            app_calls.work_here()
        return None

    def check(
        self,
        topic: str,
        key: Any,
        headers: Any = None,
        serializer: Any = None,
        patience: float | None = None,
    ) -> None:
        """Check a record before it is sent.

        Args:
            topic: The topic of the record.
            key: The key, as the application gave it.
            headers: The headers.
            serializer: Serialises the key; None: the key is already bytes.
            patience: The most seconds to wait for a look-up. A record with a key never
                waits.

        Raises:
            InvalidRecordKeyError: The record has no key and the topic is compacted.
        """
        if not self.is_on:
            return
        if not isinstance(topic, str):
            return  # the client raises its own error
        facts = self._lookup.known(topic)
        if facts is not None and not facts.compacted:
            return
        serialized = (
            key if serializer is None else _serialized(serializer, topic, headers, key)
        )
        is_disguised = key is None and is_disguise(serialized)
        if serialized is not None and not (is_disguised and self.minds_disguises):
            return
        if self._lookup.facts(topic, patience).compacted:
            self._refuse(topic, is_disguised=is_disguised)


def _serialized(serializer: Any, topic: str, headers: Any, key: Any) -> Any:
    """Return the serialised key; if serialising fails, the client will raise that."""
    try:
        return serializer.serialize(topic, headers or [], key)
    except Exception:  # noqa: BLE001 - the client serialises again and raises it
        return key if key is not None else b""
