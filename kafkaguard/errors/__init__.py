"""Error classes: one for each of the broker's error codes.

::

    KafkaGuardError
    +-- RetriableError                  Java's RetriableException, code by code
    |   +-- RefreshRetriableError       metadata or coordinator must be refreshed
    |   |   +-- InvalidMetadataError ...
    |   +-- RemoteStorageNotReadyError  KIP-1007, recognised by context
    |   +-- ClientConnectionError ...   what a client says without a broker
    +-- FatalError                      never succeeds by repetition
        +-- InvalidConfigurationError   AuthenticationError, AuthorizationError ...
        |   +-- InvalidRecordError
        |       +-- InvalidRecordKeyError   KIP-135, raised before anything is sent
        +-- AbortableError              KIP-1050
        +-- ApplicationRecoverableError KIP-1050
        +-- UnrecognisedCodeError       a number from the future; it is kept

The class is Kafka's classification of the code. What to do is in
:attr:`KafkaGuardError.verdict`, which also knows the request that was answered.
"""

from __future__ import annotations

from kafkaguard.errors import _generated, _special
from kafkaguard.errors._base import (
    AbortableError,
    FatalError,
    KafkaGuardError,
    RetriableError,
    UnrecognisedCodeError,
)
from kafkaguard.errors._generated import *  # noqa: F403 - one class a code
from kafkaguard.errors._generated import BY_CODE, KAFKA_VERSION, RETRIABLE_CODES
from kafkaguard.errors._made import dual, for_code, for_name
from kafkaguard.errors._special import *  # noqa: F403 - one class a condition

__all__ = [
    "BY_CODE",
    "KAFKA_VERSION",
    "RETRIABLE_CODES",
    "AbortableError",
    "FatalError",
    "KafkaGuardError",
    "RetriableError",
    "UnrecognisedCodeError",
    "dual",
    "for_code",
    "for_name",
]
__all__ += _generated.__all__
__all__ += _special.__all__
