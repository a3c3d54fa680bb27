"""What a guarded producer works with; in a forked child it gets another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.report import Ledger
from kafkaguard_adapters.kafka_python._oversize import SizeLimits
from kafkaguard_adapters.kafka_python._recovery import Recovery
from kafkaguard_adapters.kafka_python._rejects import Rejects
from kafkaguard_adapters.kafka_python._tracking import Tracker
from kafkaguard_adapters.kafka_python._transactions import Transactions
from kafkaguard_adapters.kafka_python._watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._verdicts.topic_facts import TopicFactsCache
    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.asking.topic_settings import TopicSettings
    from kafkaguard_adapters.kafka_python._building import Builder
    from kafkaguard_adapters.kafka_python._telling import Teller

#: Seconds that kafka-python has beyond ``delivery_timeout_ms`` to keep it by itself.
MARGIN_S = 1.0


class Session:
    """The client's producer, what is on its way, and who repairs it.

    Args:
        producer: The client's producer.
        builder: Builds its successor.
        cache: What is known of topics.
        teller: Who is told what happens.
        ask: Asks the cluster for the settings of a topic.
        rescue: Send records again that failed only with their batch.
        resend_in_doubt: Send records again that may have been written.

    Attributes:
        gate: Called by a send before anything else, where there is a reason to wait,
            with the seconds that it has.
        harmless: Topics for which a record without a key may pass unseen.
        serializes: The producer has a serialiser for keys.
        limits: Says how large the records of a topic may be.
        rejects: Does with refused records what the policy says.
    """

    __slots__ = (
        "builder",
        "cache",
        "gate",
        "harmless",
        "is_transactional",
        "ledger",
        "limits",
        "producer",
        "recovery",
        "rejects",
        "serializes",
        "teller",
        "tracker",
        "transactions",
        "watch",
    )

    def __init__(
        self,
        producer: Any,
        builder: Builder,
        cache: TopicFactsCache,
        teller: Teller,
        ask: Callable[[str], TopicSettings],
        *,
        rescue: bool,
        resend_in_doubt: bool,
    ) -> None:
        self.producer = producer
        self.builder = builder
        self.cache = cache
        self.teller = teller
        self.harmless = cache.harmless
        self.serializes = producer.config["key_serializer"] is not None
        self.is_transactional = bool(producer.config["transactional_id"])
        self.gate: Callable[[float | None], None] | None = None
        self.limits = SizeLimits(ask)
        self.ledger = Ledger()
        self.rejects = Rejects(self, teller.policy)
        self.transactions = Transactions(self)
        self.recovery = Recovery(
            self,
            self.limits,
            rescue=rescue,
            resend_in_doubt=resend_in_doubt,
        )
        self.watch = Watch(self.recovery.next_due, self.recovery.expire)
        self.tracker = Tracker(
            self.ledger,
            self.recovery.failed,
            on_begun=self.watch.begin,
            # Often enough for the time of a topic's facts, and not once a record.
            on_done=cache.look_again,
            on_settled=teller.tell,
            patience=producer.config["delivery_timeout_ms"] / 1000 + MARGIN_S,
        )
        self.put_in_use(producer)

    def put_in_use(self, producer: Any) -> None:
        """Send with this producer from now on."""
        self.transactions.adopt(producer)
        self.tracker.attach(producer)
        self.producer = producer

    def failed_for_good(self, error: KafkaGuardError) -> None:
        """Take note of a record that will not be sent again."""
        self.teller.rejected(error)
        if self.is_transactional:
            self.transactions.failed(error)

    def refused_at_once(self, error: KafkaGuardError) -> None:
        """Take note of a record that send() itself refuses."""
        if self.is_transactional:
            self.transactions.refused_at_once(error)

    def is_replaced(self, producer: Any) -> bool:
        """Tell whether the caller, who used that producer, should wait and try anew."""
        return producer is not self.producer or (
            self.gate is not None and self.recovery.is_worth_waiting()
        )
