"""Base class of guarded aiokafka clients."""

from __future__ import annotations

from aiokafka.errors import KafkaError

from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.stand_in import GuardedAsyncClient


class StandIn(GuardedAsyncClient):
    """A client whose errors are both aiokafka's and kafkaguard's."""

    _client_error = KafkaError
    _translate = staticmethod(errors.translate)
