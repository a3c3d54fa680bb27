"""The asyncio driver with a client that does only what a test tells it."""

from __future__ import annotations

import asyncio
import time

import pytest
from kafka.errors import UnknownError

from kafkaguard import errors as e
from kafkaguard._delivery.facts import Place
from kafkaguard._delivery.time_limit import TimeLimit
from kafkaguard.errors import ClientTimeoutError
from kafkaguard_adapters.building import Wish
from kafkaguard_adapters.producing.task_driver import TaskDriver
from tests.adapters.test_thread_driver import (
    BAD,
    DONE,
    FAILED,
    LONG_S,
    Client,
    NoFacts,
)
from tests.delivery.world.words import PlainPolicy


class AwaitedClient(Client):
    """A client and its shell, whose slow methods are awaited.

    Attributes:
        may_end: Whether a dead client may be ended.
    """

    def __init__(self, due=LONG_S, **traits):
        super().__init__(due, **traits)
        self.may_end = asyncio.Event()
        self.may_end.set()

    def note_reported(self):
        """Nobody reads its futures."""

    async def hand_over(self, record, deadline):
        """Take a record in again."""
        return super().hand_over(record, deadline)

    async def ask_size_limit(self, topic):
        """A topic with room for every dead letter."""
        return super().ask_size_limit(topic)

    async def hear_out(self, until):
        """Wait as long as a test says."""
        await self.may_end.wait()
        super().hear_out(until)

    async def stop(self):
        """End."""
        super().stop()

    async def put_successor_in_use(self, locking_out):
        """Have a successor."""
        super().put_successor_in_use(locking_out)

    async def retire(self):
        """Close what has a successor."""
        super().retire()


@pytest.fixture
async def build():
    """Build drivers, and end them."""
    made = []

    def build(due=LONG_S, hook=None, traits=None, **policy):
        client = AwaitedClient(due, **(traits or {}))
        wish = Wish(PlainPolicy(**policy), cache=NoFacts(), on_event=hook)
        loop = asyncio.get_running_loop()
        driver = TaskDriver(client, wish, None, loop)
        made.append(driver)
        return client, driver

    yield build
    for driver in made:
        await driver.settle_all()


async def until(condition):
    """Wait for the driver's tasks."""
    async with asyncio.timeout(LONG_S):
        while not condition():  # noqa: ASYNC110 - the driver has no event for it
            await asyncio.sleep(0)


async def outcomes(client, driver, batch):
    """Wait for each record's outcome; say how it ended."""
    assert await driver.wait(time.monotonic() + LONG_S) == 0
    return [client.records[token].outcome.ending for token in batch.tokens()]


async def test_each_of_two_refused_batches_costs_its_mates_nothing(build):
    """The second one as the first one."""
    client, driver = build()
    for value in (b"1", b"2"):
        batch = client.send("t", (b"a", value), (b"b", b"bad"))
        client.refuse(batch, None, BAD)
        assert await outcomes(client, driver, batch) == [DONE, FAILED]
        await until(lambda: not driver.is_held("t"))
    assert client.handed == [b"1", b"2"]


async def test_records_of_two_deaths_go_to_the_successors(build):
    """A second death is as the first one."""
    client, driver = build()
    for count in (1, 2):
        batch = client.send("t", (b"a", b"%d" % count))
        client.died(UnknownError("dead"), Place("t", 0))
        client.refuse(batch, UnknownError(), blame="client", sent="never")
        assert await outcomes(client, driver, batch) == [DONE]
        await until(lambda n=count: client.calls.count("retire") == n)
    steps = ["shut", "hear_out", "stop", "put_successor_in_use", "retire"]
    assert [call for call in client.calls if call in steps] == steps * 2


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_send_that_is_over_is_not_awaited_at_the_second_death(build, cancelled):
    """Whether it has gone on or was cancelled, no successor is tried for it."""
    client, driver = build()
    client.may_end.clear()
    client.died(UnknownError("dead"), None)
    limit = TimeLimit(LONG_S, "max")
    send = asyncio.create_task(driver.wait_while_held("t", limit))
    await until(lambda: driver._waiting_sends)
    if cancelled:
        send.cancel()
    client.may_end.set()
    await asyncio.wait([send])
    assert send.cancelled() is cancelled
    await until(lambda: "retire" in client.calls)
    client.breaks["put_successor_in_use"] = ConnectionError("away")
    client.died(UnknownError("dead again"), None)
    await until(lambda: driver.machine.lost)
    assert client.calls.count("put_successor_in_use") == 2


async def test_a_second_death_does_not_name_the_failed_build_of_the_first(build):
    """A build error is forgotten when a later build has succeeded."""
    client, driver = build()
    client.breaks["put_successor_in_use"] = ConnectionError("was away")
    client.died(UnknownError("dead"), None)
    await until(lambda: driver.machine.lost)
    del client.breaks["put_successor_in_use"]
    await driver.wait_while_held("t", TimeLimit(LONG_S, "max"))
    client.may_end.clear()
    client.died(UnknownError("dead again"), None)
    with pytest.raises(e.ClientTimeoutError, match="being replaced") as caught:
        await driver.wait_while_held("t", TimeLimit(0.01, "max"))
    assert "was away" not in str(caught.value)
    client.may_end.set()


async def test_a_send_has_the_time_that_its_wait_has_left(build):
    """Not its whole limit again, for the wait for room that follows."""
    client, driver = build()
    client.may_end.clear()
    client.died(UnknownError("dead"), None)
    loop = asyncio.get_running_loop()
    loop.call_later(0.05, client.may_end.set)
    assert await driver.wait_while_held("t", TimeLimit(LONG_S, "max")) < LONG_S - 0.04


async def test_all_sends_that_wait_go_on_with_the_successor(build):
    """Also a send that began to wait after another one was cancelled."""
    client, driver = build()
    client.may_end.clear()
    client.died(UnknownError("dead"), None)
    limit = TimeLimit(LONG_S, "max")
    sends = [asyncio.create_task(driver.wait_while_held("t", limit)) for _ in range(4)]
    await until(lambda: driver._waiting_sends == 4)
    sends[0].cancel()
    client.may_end.set()
    done, _ = await asyncio.wait(sends, timeout=LONG_S / 2)
    assert len(done) == 4
    assert driver._waiting_sends == 0


async def test_a_factory_that_ends_the_program_ends_no_loop(build):
    """Its records have failed, and a send says that there is no client."""
    client, driver = build()
    client.breaks["put_successor_in_use"] = SystemExit(3)
    batch = client.send("t", (b"a", b"1"))
    client.died(UnknownError("dead"), Place("t", 0))
    client.refuse(batch, UnknownError(), blame="client", sent="never")
    assert await outcomes(client, driver, batch) == [FAILED]
    with pytest.raises(e.KafkaGuardError, match="could not be replaced"):
        await driver.wait_while_held("t", TimeLimit(LONG_S, "timeout"))


async def test_dead_letters_wait_for_a_topic_that_does_not_come_only_once(build):
    """The second one fails with the first one's error."""
    client, driver = build(on_reject="dead_letter")
    client.breaks["hand_over"] = ClientTimeoutError("no such topic")
    batch = client.send("t", (b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
    client.refuse(batch, BAD, BAD, BAD)
    assert await outcomes(client, driver, batch) == [FAILED] * 3
    assert client.calls.count("hand_over") == 1


@pytest.mark.parametrize(
    "command", ["shut", "hear_out", "stop", "put_successor_in_use", "hand_over"]
)
async def test_every_record_is_settled_in_time_whatever_breaks(build, command, caplog):
    """Each record has its outcome when it is due, or from the successor."""
    client, driver = build(due=0.3)
    client.breaks[command] = RuntimeError("bug")
    batch = client.send("t", (b"a", b"1"), (b"b", b"2"))
    client.died(UnknownError("dead"), Place("t", 0))
    client.refuse(batch, *[UnknownError()] * 2, blame="client", sent="never")
    endings = await outcomes(client, driver, batch)
    is_told = command in ("hand_over", "put_successor_in_use")
    assert set(endings) <= ({FAILED, "in_doubt"} if is_told else {DONE})
    assert driver.pending() == 0
    await asyncio.sleep(0)
    assert ("a command of the delivery machine failed" in caplog.text) is not is_told


async def test_giving_up_leaves_no_task(build):
    """A client that does not end is not waited for any longer."""
    client, driver = build()
    client.may_end.clear()
    client.died(UnknownError("dead"), None)
    await until(lambda: driver._tasks)
    tasks = [*driver._tasks]
    await driver.settle_all()
    assert all(task.done() for task in tasks)
