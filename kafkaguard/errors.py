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

from typing import TYPE_CHECKING

from kafkaguard import _errors
from kafkaguard._common.public import exports
from kafkaguard._errors.base import *  # noqa: F403 - the families
from kafkaguard._errors.generated import *  # noqa: F403 - one class a code
from kafkaguard._errors.made import (
    dual as dual,
    for_code as for_code,
    for_name as for_name,
)
from kafkaguard._errors.special import *  # noqa: F403 - one class a condition

if TYPE_CHECKING:
    from kafkaguard._delivery.report import (
        CallbackError as CallbackError,
        DeliveryFailed as DeliveryFailed,
        ForkedProducerError as ForkedProducerError,
        SupersededError as SupersededError,
    )
    from kafkaguard._retries.breaker import BreakerOpenError as BreakerOpenError
    from kafkaguard.protocol._errors import ProtocolError as ProtocolError
    from kafkaguard_policies.advice.stacking import (
        StackingError as StackingError,
        StackingWarning as StackingWarning,
    )
    from kafkaguard_policies.model.problems import PolicyError as PolicyError

exports(
    __name__,
    {
        "kafkaguard._delivery.report": (
            "CallbackError DeliveryFailed ForkedProducerError SupersededError"
        ),
        "kafkaguard._retries.breaker": "BreakerOpenError",
        "kafkaguard.protocol._errors": "ProtocolError",
        "kafkaguard_policies.advice.stacking": "StackingError StackingWarning",
        "kafkaguard_policies.model.problems": "PolicyError",
    },
    loaded=_errors.__all__,
)
