"""Plans and markers in the offsets of groups: read over the guard's own connections.

The plan of a name is in the group ``kafkaguard.once.<name>.plan``. The marker of a
shard is in the group ``kafkaguard.once.<name>``, at the partition with the shard's
number; if the topic has fewer partitions, in ``kafkaguard.once.<name>.<k>``.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from confluent_kafka import TopicPartition as ClientPartition
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import InitProducerIdRequest

from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.asking.group_members import describe
from kafkaguard_adapters.asking.groups import CommittedReader, sort_by_coordinator
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.settings import read_settings
from kafkaguard_adapters.spark.once.rules import (
    SETTING,
    ForeignError,
    Marker,
    Plan,
    RefusedError,
    decode,
    encode,
    place_of,
)
from kafkaguard_adapters.spark.setting_errors import setting_error
from kafkaguard_adapters.wire.cluster import Cluster
from kafkaguard_adapters.wire.io_thread import run

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaguard_adapters.asking.groups import Committed

_ENTRY = TypeVar("_ENTRY", Marker, Plan)
_PREFIX = "kafkaguard.once."
_EMPTY = ("Empty", "Dead", "unknown")
#: Seconds for one look: a coordinator may move, or load its offsets.
_LOOK_S = 30.0
_PAUSE_S = 0.2
_BROKER, _TRANSACTION = 4, 1
_RETENTION = "offsets.retention.minutes"
_LONGEST = "transaction.max.timeout.ms"


class Home(NamedTuple):
    """Where a name's plan and markers are.

    Attributes:
        name: The name of the write.
        topic: The topic whose partitions number the offsets.
        width: The number of its partitions when the name was first used.
    """

    name: str
    topic: str
    width: int

    def id_of(self, shard: int | None) -> str:
        """Return the transactional id of a shard, or the driver's."""
        return f"{self.name}-{'driver' if shard is None else shard}"

    def refuse(self, why: ForeignError | RefusedError, batch: int) -> KafkaGuardError:
        """Make the error of a batch that is refused, with the command that settles it.

        It is the same in each attempt at a task.
        """
        advice = (
            f". See `kafkaguard once show {self.name}`, and settle it with `kafkaguard "
            f"once accept {self.name} --batch {batch}` or `kafkaguard once forget "
            f"{self.name}`"
            if isinstance(why, RefusedError)
            else ""
        )
        text = f"exactly_once={self.name!r}: {why}{advice}"
        return setting_error(text, topic=self.topic, setting=SETTING)

    def place_of(self, shard: int | None) -> tuple[str, int]:
        """Return the group and the partition of a shard's marker, or of the plan."""
        if shard is None:
            return f"{_PREFIX}{self.name}.plan", 0
        number, partition = place_of(shard, self.width)
        return _PREFIX + self.name + (f".{number}" if number else ""), partition

    def offset_of(self, shard: int | None, entry: Marker | Plan) -> Any:
        """Return the offset to commit for an entry."""
        partition, offset = self.place_of(shard)[1], max(entry.batch, 0)
        return ClientPartition(self.topic, partition, offset, metadata=encode(entry))


class Offsets:
    """Reads plans and markers.

    Args:
        client: Settings of the client, by librdkafka's names.
    """

    def __init__(self, client: Mapping[str, Any]) -> None:
        self._cluster = Cluster(read_settings(client, errors.make), errors.make)

    def look(
        self, home: Home, shards: Collection[int] | None, *, stable: bool
    ) -> tuple[Plan | None, dict[int, Marker], Home]:
        """Read the plan, and markers.

        Args:
            home: Where they are; if there is a plan, it has the width.
            shards: The shards; None: all that the plan has.
            stable: Wait until commits have ended, instead of reading what was committed
                before them. Brokers wait so only where shards are named.

        Raises:
            ForeignError: A group belongs to somebody else.
            KafkaGuardError: The offsets cannot be read.
        """
        return run(self._look(home, shards, stable=stable))

    async def _look(
        self, home: Home, shards: Collection[int] | None, *, stable: bool
    ) -> tuple[Plan | None, dict[int, Marker], Home]:
        deadline = asyncio.get_running_loop().time() + _LOOK_S
        plan_group = home.place_of(None)[0]
        places: dict[str, list[TopicPartition]] = {}
        for group, partition in map(home.place_of, (None, *(shards or (0,)))):
            place = TopicPartition(home.topic, partition)
            places.setdefault(group, []).append(place)
        found = await self._read(
            places, deadline, stable=stable, places=None if shards is None else places
        )
        plans = _entries(Plan, home, found.pop(plan_group))
        plan = plans.get(0)
        if plan is not None:
            home = home._replace(width=plan.width)
        if shards is None:
            others = range(home.width, plan.shards if plan else 0, home.width)
            more = [home.place_of(each)[0] for each in others]
            found |= await self._read(more, deadline, stable=stable) if more else {}
        markers = {}
        for group, committed in found.items():
            number = int(group.removeprefix(home.place_of(0)[0]).lstrip(".") or 0)
            for partition, marker in _entries(Marker, home, committed).items():
                markers[number * home.width + partition] = marker
        return plan, markers, home

    async def _read(
        self,
        groups: Collection[str],
        deadline: float,
        *,
        stable: bool,
        places: Mapping[str, Collection[TopicPartition]] | None = None,
    ) -> dict[str, Committed]:
        """Read groups that are ours: without members, and with our metadata.

        An offset that cannot be read is never taken for one that does not exist.
        """
        reader = CommittedReader(self._cluster, deadline, stable=stable, places=places)
        found: dict[str, Committed] = {}
        for group, answer in (await reader.read(groups)).items():
            if isinstance(answer, KafkaGuardError):
                raise answer
            for error in answer.errors.values():
                raise error
            found[group] = answer
        described = await describe(self._cluster, sort_by_coordinator(found), deadline)
        states = {group: each.state for group, each in described.items() if each.state}
        if found.keys() - states:  # a coordinator has moved, or it is not there
            await asyncio.sleep(_PAUSE_S)
            return await self._read(groups, deadline, stable=stable, places=places)
        for group, state in states.items():
            if state not in _EMPTY:
                raise ForeignError(
                    f"the group {group} has members (its state is {state}), and a "
                    "marker would overwrite their offsets: stop them, or choose "
                    "another name"
                )
        return found

    def find(self, name: str) -> Home | None:
        """Find the topic of a name's plan and markers; None: nothing is committed."""
        return run(self._find(Home(name, "", 1)))

    async def _find(self, home: Home) -> Home | None:
        deadline = asyncio.get_running_loop().time() + _LOOK_S
        groups = [home.place_of(shard)[0] for shard in (None, 0)]
        for committed in (await self._read(groups, deadline, stable=False)).values():
            for place in committed.metadata:
                width = await self._count_partitions(place.topic)
                return home._replace(topic=place.topic, width=width)
        return None

    def count_partitions(self, topic: str) -> int:
        """Return the number of a topic's partitions.

        Raises:
            KafkaGuardError: The topic does not exist, or no broker answers.
        """
        return run(self._count_partitions(topic))

    async def _count_partitions(self, topic: str) -> int:
        deadline = asyncio.get_running_loop().time() + _LOOK_S
        answer = (await self._cluster.refresh(deadline, [topic])).topics[0]
        if answer.error_code:
            text = "the topic of the markers must exist"
            raise errors.make(answer.error_code, text, api="Metadata", topic=topic)
        return len(answer.partitions)

    def limits(self) -> tuple[float | None, float | None]:
        """Return for how long brokers keep offsets, and a transaction, in seconds.

        None: this user may not read the brokers' settings (DescribeConfigs).
        """
        return run(self._limits())

    async def _limits(self) -> tuple[float | None, float | None]:
        deadline = asyncio.get_running_loop().time() + _LOOK_S
        await self._cluster.refresh(deadline)
        broker = next(iter(self._cluster.addresses))
        resource: Any = (_BROKER, str(broker), [_RETENTION, _LONGEST])
        answer = await self._cluster.ask(
            DescribeConfigsRequest(resources=[resource]), broker, deadline
        )
        values = {c.name: float(c.value) for r in answer.results for c in r.configs}
        minutes, longest = values.get(_RETENTION), values.get(_LONGEST)
        return minutes and minutes * 60, longest and longest / 1000

    def fence(self, ids: Collection[str], timeout: float) -> None:
        """End what is open under transactional ids, as their next producers would.

        Otherwise readers with ``read_committed`` wait until the tasks of these ids
        start. An id that cannot be taken over here is left to its producer.
        """
        run(self._fence(ids, round(timeout * 1000)))

    async def _fence(self, ids: Collection[str], timeout_ms: int) -> None:
        deadline = asyncio.get_running_loop().time() + _LOOK_S
        await self._cluster.refresh(deadline)
        found = await self._cluster.ask(
            FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=list(ids)),
            None,
            deadline,
            min_version=4,
        )
        requests = (
            self._cluster.ask(
                InitProducerIdRequest(
                    transactional_id=each.key,
                    transaction_timeout_ms=timeout_ms,
                    producer_id=-1,
                    producer_epoch=-1,
                ),
                each.node_id,
                deadline,
            )
            for each in found.coordinators
            if not each.error_code
        )
        await asyncio.gather(*requests, return_exceptions=True)


def _entries(kind: type[_ENTRY], home: Home, committed: Committed) -> dict[int, _ENTRY]:
    """Decode the offsets of a group.

    Raises:
        ForeignError: Some are not kafkaguard's, or are of another topic.
    """
    entries = {}
    for place, text in committed.metadata.items():
        try:
            # confluent-kafka's text ends with a NUL, which librdkafka counts.
            entries[place.partition] = decode(kind, text.rstrip("\0"))
        except ForeignError:
            raise ForeignError(
                f"a group of this name has an offset of {place} that is not a marker: "
                "choose another name"
            ) from None
        if place.topic != home.topic:
            raise ForeignError(
                f"the name has its markers on topic {place.topic}, not on "
                f"{home.topic}: name it as marker_topic, or give each write its own "
                "name"
            )
    return entries


_Key = tuple[int, tuple[tuple[str, str], ...]]
#: The readers of this process, by the settings of the client.
_kept: dict[_Key, Offsets] = {}


def offsets_for(client: Mapping[str, str]) -> Offsets:
    """Return the reader that this process keeps for a cluster."""
    key = (os.getpid(), tuple(sorted(client.items())))
    if key not in _kept:
        _kept[key] = Offsets(client)
    return _kept[key]
