"""What a guarded producer works with at this moment.

Apart from the stand-in itself, since looking up an attribute on an object that hands
unknown names on costs ten times as much, and a send looks up several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._delivery import Ledger
from kafkaguard_adapters.kafka_python._recovery import Recovery
from kafkaguard_adapters.kafka_python._tracking import Tracker

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._topic_facts import TopicFactsCache
    from kafkaguard_adapters.kafka_python._building import Builder


class Session:
    """The client's producer, what is on its way, and who repairs it.

    Args:
        producer: The client's producer.
        builder: Builds its successor.
        cache: What is known of topics.
        clock: Seconds that only ever grow.
        rescue: Send records again that failed only with their batch.
        resend_in_doubt: Also those that may have been written.

    Attributes:
        gate: Called by a send before anything else, where there is a reason to wait.
        harmless: Until when a record without a key may pass, by topic.
        serializes: The producer has a serialiser for keys.
        open: The tracker's batches, by the client's future of each.
    """

    __slots__ = (
        "builder",
        "cache",
        "clock",
        "gate",
        "harmless",
        "is_transactional",
        "ledger",
        "open",
        "producer",
        "recovery",
        "serializes",
        "tracker",
    )

    def __init__(
        self,
        producer: Any,
        builder: Builder,
        cache: TopicFactsCache,
        *,
        clock: Callable[[], float],
        rescue: bool,
        resend_in_doubt: bool,
    ) -> None:
        self.producer = producer
        self.builder = builder
        self.cache = cache
        self.clock = clock
        self.harmless = cache.harmless
        self.serializes = producer.config["key_serializer"] is not None
        self.is_transactional = bool(producer.config["transactional_id"])
        self.gate: Callable[[], None] | None = None
        self.ledger = Ledger()
        self.recovery = Recovery(self, rescue=rescue, resend_in_doubt=resend_in_doubt)
        self.tracker = Tracker(self.ledger, self.recovery.failed)
        self.open = self.tracker.open
