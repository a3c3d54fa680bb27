"""The cells of the atlas: which client gets which code to which request, and how often."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from kafkaguard._verdicts.classification import classify
from kafkaguard.testing.proxy.language import error_code

CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka")
#: Codes that Kafka 4.4 does not have, as a newer broker or another server may answer.
UNKNOWN = (150, 200, -7)
#: Codes that any request can be answered with.
_ANY = "UNKNOWN_SERVER_ERROR REQUEST_TIMED_OUT INVALID_REQUEST UNSUPPORTED_VERSION"
_LOADING = "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR"
_GROUP = f"{_LOADING} GROUP_AUTHORIZATION_FAILED INVALID_GROUP_ID"
_MEMBER = f"{_GROUP} UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID"
_LEADER = (
    "NOT_LEADER_OR_FOLLOWER UNKNOWN_TOPIC_OR_PARTITION KAFKA_STORAGE_ERROR "
    "TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_ID"
)
_EPOCHS = "FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH REPLICA_NOT_AVAILABLE"
_TXN = (
    f"{_LOADING} TRANSACTIONAL_ID_AUTHORIZATION_FAILED INVALID_PRODUCER_EPOCH "
    "INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE PRODUCER_FENCED "
    "CONCURRENT_TRANSACTIONS TRANSACTION_ABORTABLE"
)
_ADMIN = (
    "CLUSTER_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED NOT_CONTROLLER "
    "POLICY_VIOLATION THROTTLING_QUOTA_EXCEEDED"
)
#: The codes of each request: Kafka's own lists (the comments of its response classes and
#: schemas), and what its broker can answer beside them.
CODES = {
    api: f"{_ANY} {names}"
    for api, names in {
        "Produce": f"{_LEADER} CORRUPT_MESSAGE MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE "
        "INVALID_TOPIC_EXCEPTION NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND "
        "INVALID_REQUIRED_ACKS UNSUPPORTED_FOR_MESSAGE_FORMAT INVALID_TIMESTAMP "
        "CLUSTER_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED "
        "INVALID_RECORD POLICY_VIOLATION OUT_OF_ORDER_SEQUENCE_NUMBER "
        "DUPLICATE_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID INVALID_PRODUCER_EPOCH "
        "INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE UNSUPPORTED_COMPRESSION_TYPE "
        "INCONSISTENT_TOPIC_ID NETWORK_EXCEPTION LEADER_NOT_AVAILABLE",
        "Fetch": f"{_LEADER} {_EPOCHS} OFFSET_OUT_OF_RANGE CORRUPT_MESSAGE "
        "UNSUPPORTED_COMPRESSION_TYPE FETCH_SESSION_ID_NOT_FOUND "
        "INVALID_FETCH_SESSION_EPOCH FETCH_SESSION_TOPIC_ID_ERROR INCONSISTENT_TOPIC_ID "
        "OFFSET_MOVED_TO_TIERED_STORAGE",
        "ListOffsets": f"{_LEADER} {_EPOCHS} LEADER_NOT_AVAILABLE OFFSET_NOT_AVAILABLE "
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "Metadata": "UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE "
        "INVALID_TOPIC_EXCEPTION TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_ID "
        "REBOOTSTRAP_REQUIRED",
        "FindCoordinator": "COORDINATOR_NOT_AVAILABLE GROUP_AUTHORIZATION_FAILED "
        "INVALID_GROUP_ID COORDINATOR_LOAD_IN_PROGRESS",
        "JoinGroup": f"{_MEMBER} INCONSISTENT_GROUP_PROTOCOL INVALID_SESSION_TIMEOUT "
        "MEMBER_ID_REQUIRED GROUP_MAX_SIZE_REACHED REBALANCE_IN_PROGRESS",
        "SyncGroup": f"{_MEMBER} INCONSISTENT_GROUP_PROTOCOL REBALANCE_IN_PROGRESS",
        "Heartbeat": f"{_MEMBER} REBALANCE_IN_PROGRESS",
        "OffsetCommit": f"{_MEMBER} REBALANCE_IN_PROGRESS OFFSET_METADATA_TOO_LARGE "
        "INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED "
        "UNKNOWN_TOPIC_OR_PARTITION STALE_MEMBER_EPOCH GROUP_ID_NOT_FOUND",
        "OffsetFetch": f"{_GROUP} UNKNOWN_TOPIC_OR_PARTITION UNSTABLE_OFFSET_COMMIT "
        "TOPIC_AUTHORIZATION_FAILED UNKNOWN_MEMBER_ID STALE_MEMBER_EPOCH",
        "InitProducerId": f"{_TXN} CLUSTER_AUTHORIZATION_FAILED "
        "INVALID_TRANSACTION_TIMEOUT",
        "AddPartitionsToTxn": f"{_TXN} TOPIC_AUTHORIZATION_FAILED "
        "UNKNOWN_TOPIC_OR_PARTITION OPERATION_NOT_ATTEMPTED",
        "AddOffsetsToTxn": f"{_TXN} GROUP_AUTHORIZATION_FAILED",
        "TxnOffsetCommit": f"{_MEMBER} TRANSACTIONAL_ID_AUTHORIZATION_FAILED "
        "INVALID_PRODUCER_EPOCH OFFSET_METADATA_TOO_LARGE TOPIC_AUTHORIZATION_FAILED "
        "UNKNOWN_TOPIC_OR_PARTITION TRANSACTION_ABORTABLE",
        "EndTxn": _TXN,
        "CreateTopics": f"{_ADMIN} TOPIC_ALREADY_EXISTS INVALID_TOPIC_EXCEPTION "
        "INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT "
        "INVALID_CONFIG",
        "DeleteTopics": f"{_ADMIN} UNKNOWN_TOPIC_OR_PARTITION TOPIC_DELETION_DISABLED "
        "UNKNOWN_TOPIC_ID INVALID_TOPIC_EXCEPTION",
        "DescribeConfigs": "TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED "
        "UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION",
        "IncrementalAlterConfigs": f"{_ADMIN} INVALID_CONFIG UNKNOWN_TOPIC_OR_PARTITION",
        "DescribeLogDirs": "CLUSTER_AUTHORIZATION_FAILED KAFKA_STORAGE_ERROR "
        "LOG_DIR_NOT_FOUND",
        "DescribeGroups": f"{_GROUP} GROUP_ID_NOT_FOUND",
        "DeleteGroups": f"{_GROUP} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP",
        "SaslHandshake": "UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE",
        "SaslAuthenticate": "SASL_AUTHENTICATION_FAILED ILLEGAL_SASL_STATE",
    }.items()
}
#: Requests that a client does not make: it has no such call, or makes another request.
NOT_MADE = {
    "confluent-kafka": {"DescribeLogDirs"},
    "aiokafka": {"IncrementalAlterConfigs", "DescribeLogDirs", "DeleteGroups"},
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One question: what does this client do with this answer?

    Attributes:
        client: The client.
        guarded: Whether it is guarded.
        api: The request.
        code: The code of the answer.
        ever: Whether each such request is answered with it, and not only the first.
    """

    client: str
    guarded: bool
    api: str
    code: int
    ever: bool

    @property
    def executed(self) -> bool:
        """Whether the broker executes the request before the client gets the code.

        It does where the verdict says that it may have.
        """
        return classify(self.code, api=self.api).written != "no"

    def as_json(self):
        """Return it for a line of JSON."""
        return asdict(self)


def codes(api):
    """Return the codes of a request, and three that Kafka does not have."""
    return [*map(error_code, CODES[api].split()), *UNKNOWN]


def all_cells():
    """Return all cells: those that are answered once come first."""
    return [
        Cell(client, guarded, api, code, ever)
        for ever in (False, True)
        for api in CODES
        for code in codes(api)
        for client in CLIENTS
        if api not in NOT_MADE.get(client, ())
        for guarded in (False, True)
    ]
