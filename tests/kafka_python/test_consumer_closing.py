"""Time limits of the guarded KafkaConsumer: to close, to commit last, to look up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka.errors import KafkaTimeoutError

from kafkaguard import errors, load_policy
from kafkaguard._cluster.reports import make
from kafkaguard_adapters.asking.cluster_view import ClusterView
from kafkaguard_adapters.building import Wish
from kafkaguard_adapters.kafka_python.consumer import PublicConsumer


class Client:
    """A consumer that remembers how it was closed."""

    def __init__(self, request_timeout_ms=305_000):
        self.closed, self.failure = [], None
        self.config = {
            "group_id": "g",
            "isolation_level": "read_uncommitted",
            "request_timeout_ms": request_timeout_ms,
        }

    def poll(self):
        """Read nothing."""
        return {}

    def offsets(self, wanted, timeout_ms=None):
        """Look up offsets by itself."""
        return dict.fromkeys(wanted, timeout_ms)

    beginning_offsets = end_offsets = offsets_for_times = offsets

    def close(self, autocommit=True, timeout_ms=None):
        """Close."""
        self.closed.append((autocommit, timeout_ms))
        if self.failure:
            raise self.failure


def guarded(client):
    """Guard the client."""
    view = ClusterView(lambda: None, make)
    return PublicConsumer(client, view, Wish(load_policy("default")))


@pytest.mark.parametrize(
    ("request_timeout_ms", "arguments", "limit"),
    [
        (305_000, {}, 30_000),
        (8_000, {}, 8_000),
        (305_000, {"timeout_ms": 50}, 50),
        (305_000, {"timeout_ms": 90_000}, 90_000),
        (305_000, {"timeout_ms": 0}, 0),
    ],
)
def test_the_client_has_30_seconds_in_its_own_unit(
    request_timeout_ms, arguments, limit
):
    """As long as a request may take, if that is less; another limit is the user's."""
    client = Client(request_timeout_ms)
    guarded(client).close(**arguments)
    assert client.closed == [(True, limit)]


def test_a_block_that_fails_commits_nothing():
    """What it has read may not be handled; a block that ends well commits."""
    client = Client()
    with guarded(client):
        pass
    with pytest.raises(ValueError, match="own"), guarded(client):
        raise ValueError("own")
    assert client.closed == [(True, 30_000), (False, 30_000)]


def test_a_close_that_fails_is_of_both_classes_and_may_be_repeated():
    """Afterwards the consumer is closed all the same."""
    client = Client()
    client.failure = KafkaTimeoutError("the last commit")
    consumer = guarded(client)
    for _ in range(2):
        with pytest.raises(KafkaTimeoutError, match="the last commit") as caught:
            consumer.close()
        assert isinstance(caught.value, errors.KafkaGuardError)
    with pytest.raises(errors.ClientClosedError):
        consumer.poll()


@pytest.mark.parametrize("call", ["beginning_offsets", "end_offsets"])
@pytest.mark.parametrize(
    ("given", "seconds"), [((), 305.0), ((1_500,), 1.5), ((0,), 0.0)]
)
def test_a_look_up_waits_as_long_as_the_caller_says(call, given, seconds):
    """The guard's own, and then the client's; by default as long as a request."""
    consumer, limits = guarded(Client()), []

    async def find(wanted, limit):
        limits.append((list(wanted), limit))

    consumer._tiered = SimpleNamespace(find=find, find_times=find)
    found = getattr(consumer, call)(["p"], *given)
    assert limits == [(["p"], seconds)]
    assert found == {"p": given[0] if given else None}
    consumer.offsets_for_times({"p": 7}, *given)
    assert limits[1:] == [(["p"], seconds)]
