# guard(), as type checkers see it: an overload for each client, which returns a class
# of the client and our calls in one. At run time it is a stand-in. Clients are told
# apart by a method, not by class: those of a package that is not installed, or has no
# types, would fit everything.
# mypy: disallow-subclassing-any=False

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self, TypedDict, TypeVar, Unpack, overload

import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.aio
import kafka

import aiokafka
from kafkaguard._delivery.report import DeliveryReport
from kafkaguard._retries.events import Event
from kafkaguard._verdicts.context import TopicFacts
from kafkaguard_adapters.aiokafka.guarded_producer import (
    GuardedProducer as AiokafkaProducer,
)
from kafkaguard_adapters.asking.cluster_calls import (
    AsyncClusterCalls,
    AsyncReportCalls,
    ClusterCalls,
    ReportCalls,
)
from kafkaguard_adapters.kafka_python.guarded_producer import GuardedProducer
from kafkaguard_adapters.policy_in_effect import GovernedProducer
from kafkaguard_adapters.processing.consumer import AwaitedProcessing, Processing

_ClientT = TypeVar("_ClientT")

class Options(TypedDict, total=False):
    config: Mapping[str, Any] | None
    policy: Any
    topics: Mapping[str, TopicFacts] | None
    strict: bool
    on_event: Callable[[Event], object] | None

# Only a class below one without types has this, as it may have anything.
class HasWhatever(Protocol):
    @property
    def has_whatever_one_asks_for(self) -> object: ...

class HasGetone(Protocol):
    @property
    def getone(self) -> Callable[..., Any]: ...

class HasSendAndWait(Protocol):
    @property
    def send_and_wait(self) -> Callable[..., Any]: ...

class HasStart(Protocol):
    @property
    def start(self) -> Callable[..., Any]: ...

class HasConsume(Protocol):
    @property
    def consume(self) -> Callable[..., Any]: ...

class HasAwaitedProduce(Protocol):
    @property
    def produce(self) -> Callable[..., Coroutine[Any, Any, Any]]: ...

class HasProduce(Protocol):
    @property
    def produce(self) -> Callable[..., Any]: ...

class HasSetSaslCredentials(Protocol):
    @property
    def set_sasl_credentials(self) -> Callable[..., Any]: ...

class HasSeekToBeginning(Protocol):
    @property
    def seek_to_beginning(self) -> Callable[..., Any]: ...

class HasSend(Protocol):
    @property
    def send(self) -> Callable[..., Any]: ...

class HasCreateTopics(Protocol):
    @property
    def create_topics(self) -> Callable[..., Any]: ...

class _Blocking:
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

class _Awaited:
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...

class AwaitedAdmin(AsyncClusterCalls, _Awaited, aiokafka.admin.AIOKafkaAdminClient): ...
class AwaitedConsumer(
    AwaitedProcessing, AsyncReportCalls, _Awaited, aiokafka.AIOKafkaConsumer
): ...
class AwaitedProducer(AiokafkaProducer, _Awaited, aiokafka.AIOKafkaProducer): ...

class ConfluentAdmin(ClusterCalls, _Blocking, confluent_kafka.admin.AdminClient):
    def close(self) -> None: ...

class ConfluentConsumer(Processing, ReportCalls, _Blocking, confluent_kafka.Consumer):
    def commit(
        self,
        message: confluent_kafka.Message | None = None,
        offsets: Sequence[confluent_kafka.TopicPartition] | None = None,
        asynchronous: bool = True,
        *,
        allow_unassigned: bool = False,
    ) -> Any: ...

class ConfluentAIOProducer(
    AsyncClusterCalls, _Awaited, confluent_kafka.aio.AIOProducer
): ...

class ConfluentProducer(
    ClusterCalls, GovernedProducer, _Blocking, confluent_kafka.Producer
):
    def report(self) -> DeliveryReport: ...
    def transaction(self) -> AbstractContextManager[None]: ...
    def close(self, timeout: float | None = None) -> bool: ...

class KafkaPythonAdmin(ClusterCalls, _Blocking, kafka.KafkaAdminClient): ...
class KafkaPythonConsumer(Processing, ReportCalls, _Blocking, kafka.KafkaConsumer): ...
class KafkaPythonProducer(GuardedProducer, kafka.KafkaProducer): ...

@overload
def guard(
    client: HasWhatever | None = None,
    *,
    factory: Callable[..., HasWhatever] | None = None,
    **options: Unpack[Options],
) -> Any: ...
@overload
def guard(
    client: HasGetone | None = None,
    *,
    factory: Callable[..., HasGetone] | None = None,
    **options: Unpack[Options],
) -> AwaitedConsumer: ...
@overload
def guard(
    client: HasSendAndWait | None = None,
    *,
    factory: Callable[..., HasSendAndWait] | None = None,
    **options: Unpack[Options],
) -> AwaitedProducer: ...
@overload
def guard(
    client: HasStart | None = None,
    *,
    factory: Callable[..., HasStart] | None = None,
    **options: Unpack[Options],
) -> AwaitedAdmin: ...
@overload
def guard(
    client: HasConsume | None = None,
    *,
    factory: Callable[..., HasConsume] | None = None,
    **options: Unpack[Options],
) -> ConfluentConsumer: ...
@overload
def guard(
    client: HasAwaitedProduce | None = None,
    *,
    factory: Callable[..., HasAwaitedProduce] | None = None,
    **options: Unpack[Options],
) -> ConfluentAIOProducer: ...
@overload
def guard(
    client: HasProduce | None = None,
    *,
    factory: Callable[..., HasProduce] | None = None,
    **options: Unpack[Options],
) -> ConfluentProducer: ...
@overload
def guard(
    client: HasSetSaslCredentials | None = None,
    *,
    factory: Callable[..., HasSetSaslCredentials] | None = None,
    **options: Unpack[Options],
) -> ConfluentAdmin: ...
@overload
def guard(
    client: HasSeekToBeginning | None = None,
    *,
    factory: Callable[..., HasSeekToBeginning] | None = None,
    **options: Unpack[Options],
) -> KafkaPythonConsumer: ...
@overload
def guard(
    client: HasSend | None = None,
    *,
    factory: Callable[..., HasSend] | None = None,
    **options: Unpack[Options],
) -> KafkaPythonProducer: ...
@overload
def guard(
    client: HasCreateTopics | None = None,
    *,
    factory: Callable[..., HasCreateTopics] | None = None,
    **options: Unpack[Options],
) -> KafkaPythonAdmin: ...
@overload
def guard(
    client: _ClientT | None = None,
    *,
    factory: Callable[..., _ClientT] | None = None,
    **options: Unpack[Options],
) -> _ClientT: ...
