"""librdkafka's local codes, each with its error class.

The broker's codes start at -1 and go up, librdkafka's own go down from -137. Numbers
and names are those of ``confluent_kafka.KafkaError``; a test compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._errors.generated import AuthenticationError
from kafkaguard._errors.special import (
    BatchMateRefusedError,
    ClientClosedError,
    ClientConfigurationError,
    ClientConnectionError,
    ClientFencedError,
    ClientGroupError,
    ClientMetadataError,
    ClientNotConnectedError,
    ClientNoticeError,
    ClientProtocolError,
    ClientQueueFullError,
    ClientStateError,
    ClientTimeoutError,
    RecordPurgedError,
    SerializationFailedError,
    UnrelatedError,
)

if TYPE_CHECKING:
    from kafkaguard._errors.base import KafkaGuardError

LOCAL_CODES: dict[int, tuple[str, type[KafkaGuardError]]] = {
    -199: ("_BAD_MSG", ClientProtocolError),
    -198: ("_BAD_COMPRESSION", ClientProtocolError),
    -197: ("_DESTROY", ClientClosedError),
    -196: ("_FAIL", ClientStateError),
    -195: ("_TRANSPORT", ClientConnectionError),
    -194: ("_CRIT_SYS_RESOURCE", ClientConfigurationError),
    -193: ("_RESOLVE", ClientNotConnectedError),
    -192: ("_MSG_TIMED_OUT", ClientTimeoutError),
    -191: ("_PARTITION_EOF", ClientNoticeError),
    -190: ("_UNKNOWN_PARTITION", ClientMetadataError),
    -189: ("_FS", ClientConfigurationError),
    -188: ("_UNKNOWN_TOPIC", ClientMetadataError),
    -187: ("_ALL_BROKERS_DOWN", ClientNotConnectedError),
    -186: ("_INVALID_ARG", ClientConfigurationError),
    -185: ("_TIMED_OUT", ClientTimeoutError),
    -184: ("_QUEUE_FULL", ClientQueueFullError),
    -183: ("_ISR_INSUFF", ClientMetadataError),
    -182: ("_NODE_UPDATE", ClientNoticeError),
    -181: ("_SSL", ClientConfigurationError),
    -180: ("_WAIT_COORD", ClientMetadataError),
    -179: ("_UNKNOWN_GROUP", ClientMetadataError),
    -178: ("_IN_PROGRESS", ClientQueueFullError),
    -177: ("_PREV_IN_PROGRESS", ClientQueueFullError),
    -176: ("_EXISTING_SUBSCRIPTION", ClientStateError),
    -175: ("_ASSIGN_PARTITIONS", ClientNoticeError),
    -174: ("_REVOKE_PARTITIONS", ClientNoticeError),
    -173: ("_CONFLICT", ClientStateError),
    -172: ("_STATE", ClientStateError),
    -171: ("_UNKNOWN_PROTOCOL", ClientConfigurationError),
    -170: ("_NOT_IMPLEMENTED", ClientConfigurationError),
    -169: ("_AUTHENTICATION", AuthenticationError),
    -168: ("_NO_OFFSET", ClientNoticeError),
    -167: ("_OUTDATED", ClientNoticeError),
    -166: ("_TIMED_OUT_QUEUE", ClientTimeoutError),
    -165: ("_UNSUPPORTED_FEATURE", ClientConfigurationError),
    -164: ("_WAIT_CACHE", ClientMetadataError),
    -163: ("_INTR", ClientTimeoutError),
    -162: ("_KEY_SERIALIZATION", SerializationFailedError),
    -161: ("_VALUE_SERIALIZATION", SerializationFailedError),
    -160: ("_KEY_DESERIALIZATION", SerializationFailedError),
    -159: ("_VALUE_DESERIALIZATION", SerializationFailedError),
    -158: ("_PARTIAL", ClientProtocolError),
    -157: ("_READ_ONLY", ClientConfigurationError),
    -156: ("_NOENT", ClientStateError),
    -155: ("_UNDERFLOW", ClientProtocolError),
    -154: ("_INVALID_TYPE", ClientConfigurationError),
    -153: ("_RETRY", ClientConnectionError),
    -152: ("_PURGE_QUEUE", RecordPurgedError),
    -151: ("_PURGE_INFLIGHT", RecordPurgedError),
    -150: ("_FATAL", ClientClosedError),
    -149: ("_INCONSISTENT", ClientClosedError),
    -148: ("_GAPLESS_GUARANTEE", ClientClosedError),
    -147: ("_MAX_POLL_EXCEEDED", ClientGroupError),
    -146: ("_UNKNOWN_BROKER", ClientMetadataError),
    -145: ("_NOT_CONFIGURED", ClientConfigurationError),
    -144: ("_FENCED", ClientFencedError),
    -143: ("_APPLICATION", UnrelatedError),
    -142: ("_ASSIGNMENT_LOST", ClientGroupError),
    -141: ("_NOOP", ClientNoticeError),
    -140: ("_AUTO_OFFSET_RESET", ClientStateError),
    -139: ("_LOG_TRUNCATION", ClientStateError),
    -138: ("_INVALID_DIFFERENT_RECORD", BatchMateRefusedError),
    -137: ("_DESTROY_BROKER", ClientNoticeError),
}
