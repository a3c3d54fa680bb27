"""The guarded producer: stands in for a ``confluent_kafka.Producer``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from kafkaguard._verdicts.topic_facts import TopicFactsCache, TopicFactsLookup
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
from kafkaguard_adapters.confluent.callbacks import Callbacks
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.producing import produce_of
from kafkaguard_adapters.confluent.sending import Sending
from kafkaguard_adapters.confluent.shell import ConfluentShell
from kafkaguard_adapters.confluent.stand_in import QueuedStandIn
from kafkaguard_adapters.confluent.view import view_of
from kafkaguard_adapters.producing import told
from kafkaguard_adapters.producing.barrier import Limit
from kafkaguard_adapters.producing.driver import ThreadDriver
from kafkaguard_adapters.producing.null_keys import NullKeyCheck
from kafkaguard_adapters.stand_in import GuardedClient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaguard._delivery.report import DeliveryReport
    from kafkaguard._retries.events import Event
    from kafkaguard._verdicts.verdict import TopicFacts
    from kafkaguard_adapters.confluent.producer_settings import ProducerSettings
    from kafkaguard_policies import RetryPolicy

#: Seconds that close() and leaving a ``with`` block take at most by default.
CLOSE_S = 30.0
