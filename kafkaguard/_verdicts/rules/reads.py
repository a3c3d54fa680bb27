"""Rules for reads: fetches, offsets, metadata and remote storage."""

from __future__ import annotations

from kafkaguard import _errors as e
from kafkaguard._errors.base import Action
from kafkaguard._verdicts.rules.rule import READS_LOG, Rule, rule

RULES: tuple[Rule, ...] = (
    rule(
        "remote-storage-not-ready",
        Action.RETRY,
        "the broker is still loading the metadata of remote storage: wait and ask "
        "again for this partition; the others can go on",
        on=(9, -1),
        apis=READS_LOG,
        tiered=(True,),
        error_class=e.RemoteStorageNotReadyError,
        scenario="A tiered broker after its start. Kafka has no code for it.",
        source="KIP-1007; RemotePartitionMetadataStore",
    ),
    rule(
        "replica-down-in-metadata",
        Action.IGNORE,
        "a follower is down, the leader is up: the metadata is good",
        on=(9,),
        apis=frozenset({"Metadata"}),
        written="yes",
        scenario="Clients that raise on it cannot produce while one follower is down.",
        source="librdkafka #2988; KAFKA-10223; kafka_exporter #44",
    ),
    rule(
        "end-offset-not-known-yet",
        Action.REFRESH,
        "the new leader does not know the end offset yet: ask again for these "
        "partitions when the client has refreshed its metadata",
        on=(75, 78),
        apis=frozenset({"ListOffsets", "OffsetForLeaderEpoch"}),
        scenario="The moments after an election, until the high watermark caught up.",
        source="KIP-207, KIP-320; OffsetFetcherUtils",
    ),
    rule(
        "offset-out-of-range",
        Action.REJECT,
        "the position is not in the log: compare it with log start and end before any"
        " reset, since a reset skips or repeats records",
        on=(1,),
        scenario=(
            "Retention deleted records, the topic was created again, or a leader moved."
        ),
        source="KIP-320; Aiven tiered-storage #663",
    ),
    rule(
        "server-error-on-read",
        Action.RETRY,
        "the broker failed while it handled the request, which changes nothing: send "
        "it again a few times",
        on=(-1,),
        scenario="An exception inside the broker; often gone at the next request.",
        source="Aiven tiered-storage #584, #470",
    ),
    rule(
        "tiered-follower-only",
        Action.CONFIGURE,
        "only followers get this answer: this client does not work with this broker",
        on=(109,),
        scenario="A consumer that fetches like a replica.",
        source="KIP-405; ReplicaFetcherThread",
    ),
)
