"""What all guarded clients of aiokafka have in common: how they fail to start."""

from __future__ import annotations

from aiokafka.errors import KafkaError

from kafkaguard_adapters.aiokafka.errors import errors
from kafkaguard_adapters.stand_in import GuardedAsyncClient


class Client(GuardedAsyncClient):
    """A client whose errors are aiokafka's and ours."""

    _client_error = KafkaError
    _translate = staticmethod(errors.translate)
