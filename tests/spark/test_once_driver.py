"""The driver of a write exactly once, and the sums of its tasks, without brokers."""

from __future__ import annotations

import pyarrow as pa
import pytest

import kafkaguard.spark
from kafkaguard import errors as e
from kafkaguard_adapters.spark.driver import foreach_batch as foreach_batch_module
from kafkaguard_adapters.spark.driver import once
from kafkaguard_adapters.spark.driver.once import Once
from kafkaguard_adapters.spark.executor import once_task
from kafkaguard_adapters.spark.executor.input_end import check_end
from kafkaguard_adapters.spark.once.rules import NO_QUERY, ForeignError, Marker, Plan
from kafkaguard_adapters.spark.settings import make_settings

SERVERS = "127.0.0.1:1"
DAY = 86_400.0
PLAN = Plan("r1", NO_QUERY, 3, 3, 4, "c", 0, 0)
MARKER = Marker("r1", 3, 10, "d", 0)


class Offsets:
    """What brokers say, and a transaction of the driver that always succeeds."""

    def __init__(self):
        """Begin with the brokers' defaults, and nothing written."""
        self.known = (7 * DAY, 900.0)
        self.found = (None, {})

    def count_partitions(self, _):
        """Return the partitions of the marker topic."""
        return 4

    def limits(self):
        """Return how long offsets are kept, and the longest transaction."""
        return self.known

    def look(self, home, *_, **__):
        """Return plan and markers, or fail."""
        if isinstance(self.found, Exception):
            raise self.found
        return *self.found, home

    def fence(self, *_):
        """End nothing."""

    def init(self):
        """Take the driver's id over."""

    def commit(self, _):
        """Commit the plan."""


@pytest.fixture
def offsets(monkeypatch):
    """Stand in for the brokers."""
    offsets = Offsets()
    monkeypatch.setattr(once, "offsets_for", lambda _: offsets)
    monkeypatch.setattr(once, "open_producer", lambda *_: offsets)
    monkeypatch.setattr(once, "_drivers", {})
    return offsets


@pytest.fixture
def make(offsets):
    """Make the driver of a name, as a write does."""
    settings = make_settings(SERVERS, topic="t")
    return lambda retention=None: once._driver_for(settings, Once("n", "t", retention))


@pytest.mark.parametrize(
    ("known", "declared", "retention"),
    [((7 * DAY, 900.0), None, 7 * DAY), ((None, None), 60.0, 60.0)],
)
def test_retention_is_looked_up_or_declared(offsets, make, known, declared, retention):
    """Who may not read the brokers' settings declares it."""
    offsets.known = known
    assert make(declared).retention == retention


def test_unknown_retention_is_refused(offsets, make):
    """Otherwise a missing marker would mean nothing."""
    offsets.known = (None, None)
    with pytest.raises(e.ClientConfigurationError, match="or declare retention"):
        make()


@pytest.mark.parametrize(("seconds", "count"), [(440.0, 0), (460.0, 1)])
def test_transaction_that_was_open_for_long_is_a_warning(make, seconds, count):
    """From half of the time-out on, before brokers abort one."""
    warnings = make().find_warnings(PLAN, None, seconds)
    assert len(warnings) == count
    for warning in warnings:
        assert "open for 460 s, and brokers abort it after 900 s" in warning


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ((PLAN, dict.fromkeys(range(3), MARKER)), "3 of 3 shards are written"),
        ((PLAN, {1: MARKER, 2: MARKER._replace(batch=2)}), r"1 of 3 .* \[0, 2\]"),
        (e.ClientTimeoutError("away"), "which shards of batch 3 are written is not"),
    ],
)
def test_job_that_failed_names_the_shards_without_a_commit(offsets, make, found, text):
    """A commit without an answer is among them if it was not successful."""
    offsets.found = found
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(make().describe(PLAN))


@pytest.mark.parametrize(
    ("found", "text", "is_settled"),
    [
        (ForeignError("not ours"), "'n': not ours -> ", False),
        (
            (PLAN._replace(batch=9), {}),
            "once accept n --batch 3` or .* forget n`",
            True,
        ),
    ],
)
def test_refusal_names_the_command_that_settles_it(
    offsets, make, found, text, is_settled
):
    """A group of somebody else is not settled; the next write takes over anew."""
    driver, offsets.found = make(), found
    with pytest.raises(e.ClientConfigurationError, match=text) as refused:
        driver.plan(PLAN, None)
    assert ("kafkaguard once" in str(refused.value)) is is_settled
    assert make() is not driver


def test_driver_is_kept_for_the_next_batch(make):
    """It notes the last write only: a stream has no end."""
    driver = make()
    assert make() is driver
    driver.done = ("run", 3)
    driver.check_second(("run", 4))
    driver.check_second(("another run", 3))
    with pytest.raises(e.ClientConfigurationError, match="its own name"):
        driver.check_second(("run", 3))


def test_checkpoint_that_cannot_be_read_is_refused(tmp_path):
    """It may be on a file system that Arrow does not know."""
    with pytest.raises(e.ClientConfigurationError, match="cannot be read"):
        once._find_query(str(tmp_path))


def test_checkpoint_that_is_not_shown_is_refused(monkeypatch):
    """Spark Connect does not expose it."""
    monkeypatch.setattr(foreach_batch_module, "checkpoint_of", lambda _: None)
    function = kafkaguard.spark.foreach_batch(
        "t", bootstrap_servers=SERVERS, exactly_once="n"
    )
    with pytest.raises(e.ClientConfigurationError, match="foreach_batch its checkp"):
        function._find_checkpoint(None)


def test_worker_that_does_not_show_its_end_is_refused():
    """Of another version of PySpark it is not known whether it got all rows."""
    with pytest.raises(e.ClientConfigurationError, match="PySpark 4"):
        check_end(7)


@pytest.mark.parametrize("cuts", [[6], [1, 5], [2, 0, 4]])
def test_rows_have_the_same_sums_however_they_come(monkeypatch, cuts):
    """The hashes are added modulo 2^64 each; a row that stands twice counts twice."""
    monkeypatch.setattr(once_task, "check_end", lambda _: None)
    hashes = [2**63 - 1, -(2**63), 2**63 - 1, -1, 5, 5]
    batches = []
    for cut in cuts:
        part, hashes = hashes[:cut], hashes[cut:]
        columns = [pa.array(part, pa.int64()), pa.array(part[::-1], pa.int64())]
        batches.append(pa.record_batch(columns, names=once_task.DIGESTS))
    digest = once_task._Digest()
    assert list(digest.count(batches)) == batches
    each = (2 * (2**63 - 1) - 2**63 - 1 + 2 * 5) % 2**64
    assert digest.answer == (6, f"{each:016x}" * 2)
