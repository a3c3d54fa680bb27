"""Rules for administrative requests, and for answers to any request."""

from __future__ import annotations

from kafkaguard import _errors as e
from kafkaguard._errors.base import Action
from kafkaguard._verdicts.rules.rule import CHANGES, DELETES, REPEATABLE, Rule, rule

RULES: tuple[Rule, ...] = (
    rule(
        "throttled",
        Action.WAIT,
        "the quota is used up: wait as long as the answer says, then send the same "
        "request",
        on=(89,),
        scenario="Administrative requests above the controller's mutation quota.",
        source="KIP-599",
    ),
    rule(
        "change-may-be-done",
        Action.RETRY,
        "the change may have been made; sending the same request again does no harm",
        on=(7, 13, e.ClientTimeoutError, e.ClientConnectionError),
        apis=REPEATABLE,
        written="maybe",
        flag=(None, "reported"),
        scenario=(
            "The answer to an administrative request or an offset commit was lost. A "
            "repeated creation is then answered with 36 TOPIC_ALREADY_EXISTS."
        ),
        source="KafkaAdminClient; KIP-98",
    ),
    rule(
        "created-already",
        Action.IGNORE,
        "the first attempt created it, and only the answer was lost: check whether it "
        "is as you requested",
        on=(36, 37, 126),
        apis=frozenset({"CreateTopics", "CreatePartitions", "AddRaftVoter"}),
        written="yes",
        phase=("repeated",),
        scenario=(
            "A create was repeated after a timeout, and the object exists. At the "
            "first attempt another program would have created it."
        ),
        source="KafkaAdminClient; Errors.TOPIC_ALREADY_EXISTS",
    ),
    rule(
        "deleted-already",
        Action.IGNORE,
        "the first attempt deleted it, and only the answer was lost: nothing is left "
        "to do",
        on=(3, 62, 69, 85, 91, 100, 102, 127),
        apis=DELETES,
        written="yes",
        phase=("repeated",),
        scenario=(
            "A delete was repeated after a timeout, and the object does not exist."
        ),
        source="KafkaAdminClient; Errors.UNKNOWN_TOPIC_OR_PARTITION",
    ),
    rule(
        "nothing-to-delete",
        Action.REJECT,
        "the topic to delete does not exist: check its name",
        on=(3, 100),
        apis=frozenset({"DeleteTopics"}),
        scenario="The controller knows all topics, also new ones.",
        source="KIP-500; ReplicationControlManager.deleteTopic",
    ),
    rule(
        "not-attempted",
        Action.RETRY,
        "not attempted, because another item of the request failed: send the request "
        "again without that item",
        on=(55,),
        scenario="A request that is executed as a whole or not at all.",
        source="Errors.OPERATION_NOT_ATTEMPTED",
    ),
    rule(
        "election-not-needed",
        Action.IGNORE,
        "the preferred replica is the leader already",
        on=(84,),
        apis=frozenset({"ElectLeaders"}),
        written="yes",
        scenario="Electing preferred leaders where nothing has to change.",
        source="KIP-460",
    ),
    rule(
        "ask-the-controller",
        Action.REFRESH,
        "the controller is another broker: send the same request again when the "
        "client has found it",
        on=(41,),
        scenario="An administrative request right after a controller failover.",
        source="KafkaAdminClient.handleNotControllerError",
    ),
    rule(
        "start-from-bootstrap",
        Action.REFRESH,
        "the client must start again from its bootstrap servers: send the same "
        "request again, or build a new client",
        on=(129,),
        scenario="The client knows only brokers that have left the cluster.",
        source="KIP-1102",
    ),
    rule(
        "disk-has-failed",
        Action.CONFIGURE,
        "the directory is offline: check the disk and the broker's log, repair the "
        "disk, and restart the broker",
        on=(56,),
        apis=frozenset({"AlterReplicaLogDirs", "DescribeLogDirs"}),
        scenario="A disk has failed, and the broker continues with its other disks.",
        source="KIP-112; Errors.KAFKA_STORAGE_ERROR",
    ),
    rule(
        "server-error-on-change",
        Action.IN_DOUBT,
        "the broker failed while it handled the request: the change may have been made",
        on=(-1,),
        apis=CHANGES,
        written="maybe",
        scenario="An exception inside the broker, before or after the append.",
        source="Aiven tiered-storage #584; Errors.forException",
    ),
)
