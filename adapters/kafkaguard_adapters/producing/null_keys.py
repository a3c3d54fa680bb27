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

#: What serialisers make of None, so that all such records share one "key".
_DISGUISES = frozenset({b"null", b"None"})


def is_disguise(sent: Any) -> bool:
    """Return whether a serialiser may have made this of None."""
    return sent in _DISGUISES


class NullKeyRule:
    """Refuses a record without a key for a topic that is known to be compacted.

    Args:
        errors: Makes the client's errors.
        disguised: What to do about a key of None that a serialiser turned into the
            text ``null`` or ``None``: ``"warn"``, ``"reject"`` or ``"send"``.
        transactional: Within transactions, which a refusal spoils.
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
        """Whether a key of None that became a text is looked at."""
        return self._disguised != "send"

    def refuse(self, topic: str, *, is_disguised: bool) -> None:
        """Refuse a record for a compacted topic, or say once that its key is no key.

        Args:
            topic: Where it goes.
            is_disguised: A serialiser made a text of its key of None.

        Raises:
            InvalidRecordKeyError: It is refused.
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
        lookup: Knows, or finds out, which topics are compacted.
        errors: As for the rule.
        rule: As for the rule.
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
        """Refuse a record, or let it pass.

        Args:
            topic: Where it goes.
            key: Its key as the application gave it.
            headers: Its headers.
            serializer: Makes bytes of the key; None: it is bytes.
            patience: Seconds that it waits for a look-up at most. A record with a key
                never does.

        Raises:
            InvalidRecordKeyError: It has no key and the topic is compacted.
        """
        if not isinstance(topic, str):
            return  # the client says what a topic is
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
    """Return the key as it would be sent; where that fails, the client will say so."""
    try:
        return serializer.serialize(topic, headers or [], key)
    except Exception:  # noqa: BLE001 - the client serialises again and raises it then
        return key if key is not None else b""
