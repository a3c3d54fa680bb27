"""A send inside a send: a serialiser, a partitioner or a log handler that sends."""

from types import SimpleNamespace

from kafkaguard_adapters.kafka_python.sending import Sending


class Client:
    """Sends a record of its own for each record of the topic "outer".

    Attributes:
        seen: The topics that are being sent to, after the inner send.
    """

    def __init__(self, sending):
        self.config = {"key_serializer": None}
        self.sending = sending
        self.seen = []

    def send(self, topic, *args, **kwargs):
        """Take a record."""
        if topic == "outer":
            self.sending.send("inner", b"v", b"k")
            self.seen = list(self.sending.under_way.values())
        return SimpleNamespace(is_done=False)


def test_outer_send_is_under_way_until_it_has_its_batch():
    """A hold of the outer topic waits for it, also after the inner one is done."""
    sending = Sending(set())
    client = Client(sending)
    driver = SimpleNamespace(
        machine=SimpleNamespace(holds=set()),
        wait_while_held=None,
    )
    sending.use(SimpleNamespace(producer=client), driver, None, None, {})

    sending.send("outer", b"v", b"k")

    assert client.seen == ["outer"]
    assert list(sending.under_way.values()) == [None]
