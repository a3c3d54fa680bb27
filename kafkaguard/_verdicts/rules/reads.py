"""Requests that read: fetches, offsets, metadata and remote storage."""

from __future__ import annotations

from kafkaguard import errors as e
from kafkaguard._verdicts.rules.rule import READS_LOG, Rule, rule
from kafkaguard._verdicts.verdict import Action

RULES: tuple[Rule, ...] = (
    rule(
        "remote-storage-not-ready",
        Action.RETRY,
        "the broker is still reading the metadata of remote storage: wait and ask "
        "again for this partition; the others can go on",
        on=(9, -1),
        apis=READS_LOG,
        tiered=(True,),
        error_class=e.RemoteStorageNotReadyError,
        scenario="A tiered broker after its start. No code of its own was ever added.",
        source="KIP-1007; RemotePartitionMetadataStore",
    ),
    rule(
        "replica-down-in-metadata",
        Action.IGNORE,
        "a follower is away, the leader is fine: the metadata is good",
        on=(9,),
        apis=frozenset({"Metadata"}),
        written="yes",
        scenario="Clients that raise on it cannot produce while one follower is down.",
        source="librdkafka #2988; KAFKA-10223; kafka_exporter #44",
    ),
    rule(
        "end-offset-not-known-yet",
        Action.REFRESH,
        "the new leader cannot tell yet: ask again for these partitions only, when the "
        "client has refreshed its metadata",
        on=(75, 78),
        apis=frozenset({"ListOffsets", "OffsetForLeaderEpoch"}),
        scenario="The moments after an election, until the high watermark caught up.",
        source="KIP-207, KIP-320; OffsetFetcherUtils",
    ),
    rule(
        "offset-out-of-range",
        Action.REJECT,
        "the position is not in the log: compare it with log start and end before any "
        "reset, since a reset skips or repeats records",
        on=(1,),
        scenario="Retention passed by, the topic was made anew, or a leader moved.",
        source="KIP-320; Aiven tiered-storage #663",
    ),
    rule(
        "server-error-on-read",
        Action.RETRY,
        "the broker failed once; the request changes nothing, so ask again a few times",
        on=(-1,),
        scenario="An exception inside the broker; often gone at the next request.",
        source="Aiven tiered-storage #584, #470",
    ),
    rule(
        "tiered-follower-only",
        Action.CONFIGURE,
        "this answer is meant for followers: the client and the broker do not fit",
        on=(109,),
        scenario="A consumer that fetches like a replica.",
        source="KIP-405; ReplicaFetcherThread",
    ),
)
