"""Errors without a code: Kafka's own, and conditions of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kafkaguard._errors.base import FatalError, KafkaGuardError, RetriableError
from kafkaguard._errors.generated import InvalidRecordError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BatchMateRefusedError",
    "CallInterruptedError",
    "ClientClosedError",
    "ClientConfigurationError",
    "ClientConnectionError",
    "ClientFencedError",
    "ClientGroupError",
    "ClientMetadataError",
    "ClientNotConnectedError",
    "ClientNoticeError",
    "ClientProtocolError",
    "ClientQueueFullError",
    "ClientStateError",
    "ClientTimeoutError",
    "InvalidRecordKeyError",
    "NoError",
    "PartitionNotThereError",
    "RecordPurgedError",
    "RemoteStorageNotReadyError",
    "SerializationFailedError",
    "TokenProviderError",
    "UnrelatedError",
]


class NoError(KafkaGuardError):
    """Code 0: the broker reports no error."""

    code = 0
    name = "NONE"


class AnswersOfOthers(Protocol):
    """The answers for the other partitions of a call."""

    @property
    def partitions(self) -> Mapping[Any, Any]:
        """A value or an error for each, by topic and partition."""


class RemoteStorageNotReadyError(RetriableError):
    """The broker is still reading the metadata of remote (tiered) storage.

    It has no code: a broker answers 9 or -1, and only request and topic show what it
    means (KIP-1007). Other partitions of the same request are not affected.

    Attributes:
        report: The answers for the other partitions, if a guarded consumer's call for
            several partitions raises this.
    """

    name = "REMOTE_STORAGE_NOT_READY"
    report: AnswersOfOthers | None = None


class InvalidRecordKeyError(InvalidRecordError):
    """A record for a compacted topic has no key (KIP-135).

    Brokers answer 87 (old ones 2) and fail the whole batch, so the guard raises this
    error before anything is sent.
    """

    name = "INVALID_RECORD_KEY"


class ClientConnectionError(RetriableError):
    """There is no usable connection to a broker at this moment."""

    name = "CLIENT_CONNECTION"
    origin = "client"


class ClientNotConnectedError(ClientConnectionError):
    """No connection could be made, so nothing was sent."""

    name = "CLIENT_NOT_CONNECTED"


class TokenProviderError(ClientNotConnectedError):
    """The application's provider of OAUTHBEARER tokens failed; nothing was sent.

    If the guard itself has called the provider, ``__cause__`` is what it raised.
    """

    name = "TOKEN_PROVIDER"


class ClientTimeoutError(RetriableError):
    """The client stopped waiting for an answer.

    The request may have been carried out: ``verdict.written`` says so.
    """

    name = "CLIENT_TIMEOUT"
    origin = "client"


class CallInterruptedError(FatalError):
    """The caller ended the call: a cancelled task, Ctrl-C, an exit."""

    name = "CALL_INTERRUPTED"
    origin = "client"


class ClientQueueFullError(RetriableError):
    """The client's own buffer is full; the record was not accepted."""

    name = "CLIENT_QUEUE_FULL"
    origin = "client"


class ClientMetadataError(RetriableError):
    """The client's view of the cluster lacks what the call needs."""

    name = "CLIENT_METADATA"
    origin = "client"


class BatchMateRefusedError(RetriableError):
    """The record's batch was refused because of another record, or as a whole."""

    name = "BATCH_MATE_REFUSED"
    origin = "client"


class PartitionNotThereError(FatalError):
    """The record is for a partition that does not exist; nothing was sent."""

    name = "PARTITION_NOT_THERE"
    origin = "client"


class RecordPurgedError(FatalError):
    """The client dropped the record, because of purge() or because it was closed."""

    name = "RECORD_PURGED"
    origin = "client"


class SerializationFailedError(FatalError):
    """The record's key or value could not be (de)serialised.

    Attributes:
        offset: The offset of a record that was read (KIP-1036); None: the record was
            not read but to be sent, or a guard did not raise this.
        key: The bytes of its key; None: it has none.
        value: The bytes of its value; None: it has none.
        headers: Its headers, as the client returns them.
    """

    name = "SERIALIZATION_FAILED"
    origin = "client"
    offset: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: Any = None


class ClientClosedError(FatalError):
    """The client object is closed, or can no longer be used."""

    name = "CLIENT_CLOSED"
    origin = "client"


class ClientFencedError(FatalError):
    """Another instance uses the client's id now."""

    name = "CLIENT_FENCED"
    origin = "client"


class ClientGroupError(FatalError):
    """The client is not a member with these partitions any more."""

    name = "CLIENT_GROUP"
    origin = "client"


class ClientConfigurationError(FatalError):
    """A setting, an argument or a credential cannot be used; the text names it."""

    name = "CLIENT_CONFIGURATION"
    origin = "client"


class ClientProtocolError(FatalError):
    """The client could not read an answer."""

    name = "CLIENT_PROTOCOL"
    origin = "client"


class ClientStateError(FatalError):
    """The call is not allowed in the client's current state."""

    name = "CLIENT_STATE"
    origin = "client"


class ClientNoticeError(FatalError):
    """A notice that the client reports like an error; nothing has failed."""

    name = "CLIENT_NOTICE"
    origin = "client"


class UnrelatedError(FatalError):
    """An exception that has nothing to do with Kafka."""

    name = "UNRELATED"
    origin = "client"
