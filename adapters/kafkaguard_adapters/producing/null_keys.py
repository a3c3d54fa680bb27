"""Refuse records without a key for compacted topics (KIP-135)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafkaguard._verdicts.classification import classify
from kafkaguard.errors import InvalidRecordKeyError

if TYPE_CHECKING:
    from kafkaguard._verdicts.topic_facts import TopicFactsLookup
    from kafkaguard_adapters.client_errors import ClientErrors

_INVALID_RECORD = 87
_log = logging.getLogger("kafkaguard.producer")

#: Texts that some serialisers make of None. All these records then share one "key".
_DISGUISES = frozenset({b"null", b"None"})


def is_disguise(sent: Any) -> bool:
    """Return whether a serialised key may have been made from None."""
    return sent in _DISGUISES


class NullKeyRule:
    """Refuses a record without a key for a topic that is known to be compacted.

    Args:
        errors: Makes the client's errors.
        disguised: What to do if a serialiser turns a key of None into the text ``null``
            or ``None``: ``"warn"``, ``"reject"`` or ``"send"``.
        transactional: Whether the producer is transactional; then a refused record
            fails the whole transaction.
    """

    def __init__(
        self,
        errors: ClientErrors,
        *,
        disguised: str = "warn",
        transactional: bool = False,
    ) -> None:
        self._errors = errors
        self._verdict = classify(
            _INVALID_RECORD, api="Produce", null_key=True, transactional=transactional
        )
        self._disguised = disguised
        self._warned: set[str] = set()

    @property
    def minds_disguises(self) -> bool:
        """Whether keys of None that a serialiser turned into text are checked."""
        return self._disguised != "send"

    def refuse(self, topic: str, *, is_disguised: bool) -> None:
        """Refuse a record for a compacted topic, or log once that its key is not real.

        Args:
            topic: The topic of the record.
            is_disguised: Whether a serialiser turned a key of None into text.

        Raises:
            InvalidRecordKeyError: The record is refused.
        """
        if is_disguised and self._disguised == "warn":
            if topic not in self._warned:
                self._warned.add(topic)
                _log.warning(
                    "the key serialiser turns a key of None into text; topic %s is "
                    "compacted and keeps only the last of all such records",
                    topic,
                )
            return
        raise self._errors.make(
            InvalidRecordKeyError,
            "topic is compacted and the record has no key; nothing was sent. Give it "
            "a key, or send it to another topic",
            api="Produce",
            topic=topic,
            verdict=self._verdict,
        )


class NullKeyCheck(NullKeyRule):
    """Looks up whether a topic is compacted, before it refuses a record.

    Args:
        lookup: Looks up and caches which topics are compacted.
        errors: As for :class:`NullKeyRule`.
        rule: Other arguments of :class:`NullKeyRule`.
    """

    def __init__(
        self, lookup: TopicFactsLookup, errors: ClientErrors, **rule: Any
    ) -> None:
        super().__init__(errors, **rule)
        self._lookup = lookup

    def check(
        self,
        topic: str,
        key: Any,
        headers: Any,
        serializer: Any,
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
        if not isinstance(topic, str):
            return  # the client raises its own error
        known = self._lookup.known(topic)
        if known is not None and not known.compacted:
            return
        sent = (
            key if serializer is None else _serialized(serializer, topic, headers, key)
        )
        is_disguised = key is None and is_disguise(sent)
        if sent is not None and not (is_disguised and self.minds_disguises):
            return
        if self._lookup.facts(topic, patience).compacted:
            self.refuse(topic, is_disguised=is_disguised)


def _serialized(serializer: Any, topic: str, headers: Any, key: Any) -> Any:
    """Return the serialised key; if serialising fails, the client will raise that."""
    try:
        return serializer.serialize(topic, headers or [], key)
    except Exception:  # noqa: BLE001 - the client serialises again and raises it
        return key if key is not None else b""
