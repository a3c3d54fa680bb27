"""We explain: what each of Kafka's and librdkafka's codes says, in a sentence."""

from __future__ import annotations

MEANINGS: dict[int, str] = {
    -1: (
        "The broker hit an exception that it has no code for; only its own log tells "
        "the cause."
    ),
    1: (
        "The offset lies outside the log: retention removed it, or the topic was "
        "created again."
    ),
    2: (
        "The batch failed its checksum or is malformed; old brokers mean a missing "
        "key on a compacted topic."
    ),
    3: (
        "This broker knows no such topic or partition: a wrong name, a deleted topic "
        "or a very new one."
    ),
    4: (
        "The fetch asked for a size that cannot be; Kafka 4 brokers do not send this "
        "to applications."
    ),
    5: (
        "The partition has no leader at the moment, mostly in the middle of an "
        "election."
    ),
    6: (
        "This broker does not lead the partition (any more), or holds no copy of it: "
        "leadership has moved."
    ),
    7: (
        "The broker did not finish in time, often because replicas were slow to "
        "confirm a write."
    ),
    8: (
        "The wanted broker is not running or cannot be found; an application normally "
        "never sees this."
    ),
    9: "A replica of the partition is offline or not usable for what was asked.",
    10: "The record or batch is larger than max.message.bytes of the topic.",
    11: (
        "A controller of the past sent the request; broker traffic that an "
        "application normally never sees."
    ),
    12: (
        "The metadata string committed with an offset is longer than "
        "offset.metadata.max.bytes."
    ),
    13: (
        "The connection broke before the answer came; clients make this code up, "
        "brokers never send it."
    ),
    14: (
        "The coordinator is still reading its log after a start or failover and "
        "cannot answer yet."
    ),
    15: (
        "The group or transaction has no working coordinator, or its internal topic "
        "is not ready."
    ),
    16: (
        "This broker does not coordinate the group or transaction: the coordinator "
        "has moved."
    ),
    17: (
        "The topic name is illegal, or the topic is an internal one that clients may "
        "not write to."
    ),
    18: (
        "The batch is larger than a log segment, so it can never be appended in one "
        "piece."
    ),
    19: (
        "Fewer replicas are in sync than min.insync.replicas wants; nothing was "
        "written."
    ),
    20: (
        "The leader wrote the batch, then found fewer replicas in sync than "
        "min.insync.replicas."
    ),
    21: "The producer's acks is none of 0, 1 and -1 (all).",
    22: "The group has gone on to a newer generation than the one in the request.",
    23: (
        "The member shares no assignment strategy or protocol type with the rest of "
        "its group."
    ),
    24: "The group id is missing, empty or used for a group of another kind.",
    25: (
        "The group does not have this member: it was removed after a timeout, or has "
        "left."
    ),
    26: (
        "The session timeout is outside group.min and group.max.session.timeout.ms of "
        "the broker."
    ),
    27: (
        "The group is assigning its partitions again, so requests of the old round "
        "are refused."
    ),
    28: (
        "The offset commit is too large for the offsets topic; only brokers before "
        "Kafka 4 send it."
    ),
    29: "The principal has no ACL for this operation on the topic.",
    30: "The principal has no ACL for this operation on the consumer group.",
    31: "The principal has no ACL for this operation on the cluster as a whole.",
    32: (
        "The record's timestamp is further from the broker's clock than the topic "
        "allows."
    ),
    33: (
        "The broker's listener does not offer the SASL mechanism that the client chose."
    ),
    34: (
        "A request came at the wrong step of the SASL handshake, or on a listener "
        "without SASL."
    ),
    35: (
        "The broker does not speak this version of the request, or lacks the feature "
        "behind it."
    ),
    36: "A topic of this name exists already.",
    37: (
        "The partition count is not allowed: zero, negative, or not more than the "
        "topic has now."
    ),
    38: (
        "The replication factor is zero, negative or larger than the number of usable "
        "brokers."
    ),
    39: (
        "The list of replicas is wrong: unknown or repeated brokers, or gaps between "
        "partitions."
    ),
    40: "A configuration key is unknown or its value is not allowed.",
    41: "An administrative request reached a node that is not the active controller.",
    42: (
        "The request contradicts itself or lacks a field, mostly a fault of the "
        "client library."
    ),
    43: (
        "The partition's old message format cannot do this; Kafka 4 has only the "
        "current format."
    ),
    44: "A policy plugin that the cluster's operators installed refuses the request.",
    45: (
        "The producer's sequence has a gap: an earlier batch never arrived or the "
        "broker lost its state."
    ),
    46: (
        "The broker has this batch of the idempotent producer already: a repeat of a "
        "successful write."
    ),
    47: (
        "The producer's epoch is older than the broker's: it was replaced, or its "
        "transaction timed out."
    ),
    48: (
        "The transaction is in a state that does not allow this step, such as adding "
        "after a commit."
    ),
    49: (
        "The coordinator links no such producer id to the transactional.id; idle ids "
        "expire."
    ),
    50: (
        "The transaction timeout is larger than transaction.max.timeout.ms of the "
        "broker."
    ),
    51: (
        "The previous transaction of this producer is still being completed, or "
        "another step of it runs."
    ),
    52: (
        "A transaction coordinator was replaced; broker traffic that an application "
        "normally never sees."
    ),
    53: "The principal has no ACL for this transactional.id.",
    54: (
        "The cluster has no authorizer configured, so there are no ACLs to read or "
        "change."
    ),
    55: (
        "The broker did not try this part of the request because another part of it "
        "had failed."
    ),
    56: "The disk that holds the partition has failed or is offline on this broker.",
    57: "The broker has no such log directory, or the one that was named is offline.",
    58: "The broker refused the SASL credentials: wrong user, password or token.",
    59: (
        "The broker has forgotten the producer id because its records aged out; only "
        "older brokers say so."
    ),
    60: "The partition is being moved to other replicas at the moment.",
    61: (
        "The cluster has no secret key for delegation tokens, so it does not issue any."
    ),
    62: "The cluster has no such delegation token: it is misspelt, expired or removed.",
    63: "The principal is neither the owner nor a renewer of the delegation token.",
    64: (
        "Delegation tokens cannot be asked for on this connection: it is "
        "unauthenticated or used a token."
    ),
    65: "The principal has no ACL for this delegation token.",
    66: "The delegation token is past its expiry or its maximum lifetime.",
    67: (
        "The owner or renewer of a token has a principal type that is not supported; "
        "it must be a User."
    ),
    68: "The group still has members, so it cannot be deleted or reset.",
    69: "There is no group of this id and of the wanted kind.",
    70: "The broker has dropped this fetch session to make room, or was restarted.",
    71: "The fetch session is out of step: a fetch was lost or came twice.",
    72: (
        "The partition's leader has no address on the listener that the client is "
        "connected to."
    ),
    73: "The cluster runs with delete.topic.enable=false, so no topic can be deleted.",
    74: (
        "The client knows an older leader epoch than the broker: its metadata is stale."
    ),
    75: (
        "The client knows a newer leader epoch than the broker: the broker lags behind."
    ),
    76: (
        "The compression type is not allowed here, such as zstd in an old version of "
        "the request."
    ),
    77: (
        "The broker's registration was replaced; controller traffic that an "
        "application normally never sees."
    ),
    78: (
        "The new leader cannot give the end offset yet; its high watermark is still "
        "catching up."
    ),
    79: (
        "The first join of a group is answered with a member id that the member must "
        "join with."
    ),
    80: "The preferred leader could not be elected since it is offline or not in sync.",
    81: "The group has group.max.size members already and takes no more.",
    82: "Another member with the same group.instance.id has taken this one's place.",
    83: (
        "No replica of the partition may become leader: none of them is in sync and "
        "online."
    ),
    84: "The partition has the wanted leader already, so there is nothing to elect.",
    85: "The partition is not being reassigned, so there is nothing to cancel.",
    86: (
        "Members of the group are subscribed to the topic, so its offsets cannot be "
        "deleted."
    ),
    87: (
        "A record of the batch broke a rule of the topic, such as no key on a "
        "compacted one."
    ),
    88: (
        "An open transaction has uncommitted offsets for the partition, so the stable "
        "one is not known."
    ),
    89: "The client has used up its quota for creating, growing or deleting topics.",
    90: (
        "Another instance raised the epoch of this transactional.id, or the "
        "coordinator did after a timeout."
    ),
    91: (
        "The described or changed item does not exist, such as a user without SCRAM "
        "credentials."
    ),
    92: "The request names the same item twice.",
    93: (
        "The SCRAM credential is unfit: an empty name, an unknown mechanism or a bad "
        "iteration count."
    ),
    94: (
        "The voters of the controllers disagree; controller traffic that an "
        "application normally never sees."
    ),
    95: (
        "An update was based on an outdated version; mostly controller traffic, or a "
        "feature downgrade."
    ),
    96: (
        "The cluster could not change a feature level; Kafka 4 brokers give other "
        "codes for it."
    ),
    97: (
        "A forwarded request held an unreadable principal; an application normally "
        "never sees this."
    ),
    98: (
        "A controller has no such metadata snapshot; an application normally never "
        "sees this."
    ),
    99: (
        "A snapshot was read beyond its end; controller traffic that an application "
        "normally never sees."
    ),
    100: (
        "This broker knows no topic of this id: it was deleted, created again or is "
        "very new."
    ),
    101: (
        "Two brokers have the same node.id; controller traffic that an application "
        "normally never sees."
    ),
    102: (
        "The controller has no broker of this id: it never registered or was "
        "unregistered."
    ),
    103: (
        "The topic id differs from the one in the broker's log: the topic was deleted "
        "and created again."
    ),
    104: "The request was meant for another cluster: the cluster ids differ.",
    105: (
        "The coordinator has no such transactional.id: it never began, or has expired."
    ),
    106: (
        "Topic ids and topic names were mixed within one fetch session, as during an "
        "upgrade."
    ),
    107: (
        "A replica may not be in sync now, as it shuts down; an application normally "
        "never sees this."
    ),
    108: (
        "The controller elected a new leader meanwhile; an application normally never "
        "sees this."
    ),
    109: (
        "The offset is in remote storage only; meant for followers, an application "
        "normally never sees it."
    ),
    110: (
        "The group has removed this member's epoch, so its partitions are no longer "
        "its own."
    ),
    111: "Another live member still holds this group.instance.id.",
    112: "The broker does not have the partition assignor that the member asked for.",
    113: "The commit carries an older member epoch than the group has for this member.",
    114: (
        "The request reached a broker but was meant for a controller, or the other "
        "way round."
    ),
    115: "The node cannot describe endpoints of this kind.",
    116: (
        "The controller with this id is not known; an application normally never sees "
        "this."
    ),
    117: (
        "The client's telemetry subscription has changed since it last asked; only "
        "metrics are concerned."
    ),
    118: (
        "The client pushed more telemetry than telemetry.max.bytes allows; only "
        "metrics are concerned."
    ),
    119: (
        "The controller refuses a broker's registration; an application normally "
        "never sees this."
    ),
    120: (
        "The transaction met an error and can only be aborted; the producer itself "
        "stays usable."
    ),
    121: (
        "The share consumer no longer holds the record: its lock ran out or it was "
        "acknowledged before."
    ),
    122: (
        "The broker has no such share session: it was dropped, or the broker was "
        "restarted."
    ),
    123: "The share session is out of step: a request was lost or came twice.",
    124: (
        "The state of a share group has a newer owner; an application normally never "
        "sees this."
    ),
    125: "The voter's id or directory id is not that of the receiving controller.",
    126: "The controller to be added is a voter already.",
    127: "The controller to be removed or updated is not a voter.",
    128: "The subscription's pattern is not a valid RE2/J regular expression.",
    129: "The broker finds the client's view of the cluster too far off to go on from.",
    130: (
        "The Streams topology cannot work with the topics, such as unequal partition "
        "counts in a join."
    ),
    131: "The epoch of the Streams topology is not valid for the group.",
    132: "The Streams topology is older than the one that the group has gone on to.",
    133: "The broker has as many share sessions as it is allowed to hold.",
    134: (
        "The group could not be deleted in full, as when its topology description "
        "could not be removed."
    ),
    135: "The broker's plugin could not store the description of the Streams topology.",
    136: "No controller of this id is registered, so it cannot be unregistered.",
    -199: "The client received a message that it cannot parse.",
    -198: (
        "The client cannot decompress a batch: it is damaged or the codec was not "
        "built in."
    ),
    -197: "The client or its broker handle is being closed.",
    -196: "The client failed in a way for which it has no better code.",
    -195: "The connection to a broker broke, timed out or was refused.",
    -194: (
        "The operating system refused the client a thread, memory or another resource."
    ),
    -193: "The host name of a broker could not be resolved by DNS.",
    -192: (
        "The record was not delivered within message.timeout.ms (delivery.timeout.ms)."
    ),
    -191: (
        "The consumer has read up to the end of the partition; more records may follow."
    ),
    -190: "The topic has no such partition in the client's metadata.",
    -189: "A file or directory that the client needs could not be read or written.",
    -188: "The cluster has no such topic, as far as the client's metadata goes.",
    -187: "Not one of the known brokers is connected at the moment.",
    -186: "An argument or a configuration value of the call is not allowed.",
    -185: "The client's own time limit for the call or request ran out.",
    -184: "The producer's queue has reached queue.buffering.max.messages or .kbytes.",
    -183: "The topic has fewer replicas in sync than the client was told to demand.",
    -182: (
        "The client learnt of a changed broker address; an internal event, not a "
        "failure."
    ),
    -181: "TLS failed: the certificate, the key, the CA or the handshake.",
    -180: "The client does not know the group's coordinator yet.",
    -179: "The client belongs to no group, for instance because group.id is not set.",
    -178: "The same operation is running already and has not ended.",
    -177: "An earlier operation has to end before this one can begin.",
    -176: "A subscription is in place, and it rules out what was asked for.",
    -175: (
        "The group gives partitions to this consumer; an event of a rebalance, not a "
        "failure."
    ),
    -174: (
        "The group takes partitions from this consumer; an event of a rebalance, not "
        "a failure."
    ),
    -173: "Two calls or settings that exclude each other were used together.",
    -172: "The call does not fit the client's present state.",
    -171: "The broker or the setting named a protocol that the client does not know.",
    -170: "This version of librdkafka does not implement what was asked for.",
    -169: "The client could not authenticate itself to the broker.",
    -168: "There is no offset to commit: none was stored since the last commit.",
    -167: "The answer or operation was overtaken by a newer one and no longer counts.",
    -166: "The request waited in the client for too long and was never sent.",
    -165: "The brokers are too old for a feature that the client is set to use.",
    -164: "The client is still waiting for its metadata cache to be refreshed.",
    -163: "The operation was interrupted, for instance by a signal.",
    -162: "The serialiser of the application failed on the record's key.",
    -161: "The serialiser of the application failed on the record's value.",
    -160: "The deserialiser of the application failed on the record's key.",
    -159: "The deserialiser of the application failed on the record's value.",
    -158: "The broker's answer ended before it was complete.",
    -157: "The object or setting may be read but not changed.",
    -156: "The client has no such entry, setting or item.",
    -155: "The client's buffer ended too early while it parsed an answer.",
    -154: "A value has another type than the client expects there.",
    -153: (
        "The client will repeat the request itself; an internal code that rarely "
        "surfaces."
    ),
    -152: "The record was purged from the queue and had not been sent.",
    -151: (
        "The record was purged while its request was under way, so the broker may "
        "have written it."
    ),
    -150: (
        "The client has met a fatal error and refuses all further work; the cause has "
        "a code of its own."
    ),
    -149: "The idempotent producer's own books do not agree with each other.",
    -148: (
        "A record failed, and continuing would leave a gap in the producer's order "
        "(enable.gapless.guarantee)."
    ),
    -147: (
        "The application did not poll within max.poll.interval.ms, so the consumer "
        "left its group."
    ),
    -146: "The client knows no broker of this id.",
    -145: (
        "The feature is not configured, such as a transaction call without "
        "transactional.id."
    ),
    -144: (
        "A newer instance with the same transactional.id or group.instance.id has "
        "replaced this one."
    ),
    -143: "The application or one of its callbacks raised the error, not Kafka.",
    -142: (
        "The consumer has lost its partitions without a chance to commit: its group "
        "removed it."
    ),
    -141: "There was nothing to do.",
    -140: (
        "There is no usable offset, and auto.offset.reset=error forbids to choose one."
    ),
    -139: (
        "The log was cut back below the consumer's position, as after an unclean "
        "election."
    ),
    -138: (
        "Another record of the batch was invalid; this one was not written because of "
        "it."
    ),
    -137: (
        "The client drops a broker that has left the cluster; it continues with the "
        "others."
    ),
}
