"""Guarded clients beside bare ones: some seeded programs, and the judge itself."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kafkaguard.testing import KafkaCluster
from tests.differ.judge import Played, findings
from tests.differ.programs import CLIENTS, Program, Step, from_json, program
from tests.differ.runner import SETTINGS, Stage

#: Kinds of findings that depend on how busy the machine is; ``make differ`` has them.
TIMED = frozenset({"late", "stuck", "hung"})
SEEDS = range(7)


@pytest.mark.java
@pytest.mark.parametrize("client", CLIENTS)
def test_a_guarded_client_keeps_every_promise_that_the_bare_one_keeps(client):
    """Programs with pairs of faults lose, double, skip and misreport nothing."""
    with KafkaCluster(settings=SETTINGS) as cluster, ThreadPoolExecutor(2) as pool:
        stage = Stage(cluster.bootstrap_servers)
        verdicts = list(pool.map(lambda seed: stage.judge(client, seed), SEEDS))
    worse = [
        (verdict.program.seed, str(each))
        for verdict in verdicts
        for each in verdict.worse
        if each.kind not in TIMED
    ]
    assert worse == []


@pytest.mark.java
def test_a_program_that_kills_itself_never_ends_by_itself(kafka_cluster):
    """A kill that comes later than the last step would make its records untold."""
    steps = [Step("send", {"records": [SENT]}), Step("die", {"after": 0.05})]
    settings = {"idempotent": True, "linger": 0, "by_factory": True}
    killed = Program(0, "confluent-kafka", "producer", settings, steps)
    played = Stage(kafka_cluster.bootstrap_servers).play(killed, guarded=False)
    assert played.was_killed
    assert findings(killed, played) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_a_seed_always_makes_the_same_program(client):
    """A program can be played again, also from its data in another process."""
    programs = [program(client, seed) for seed in range(200)]
    assert programs == [program(client, seed) for seed in range(200)]
    assert programs == [from_json(each.as_json()) for each in programs]
    assert {each.role for each in programs} == {"producer", "consumer", "transactions"}


SENT = {"topic": "plain", "key": "a", "form": "keywords", "size": 9, "partition": None}


def produced(*steps, idempotent=True, role="producer"):
    """Make a program that sends."""
    settings = {"idempotent": idempotent}
    return Program(0, "kafka-python", role, settings, list(steps))


def told(record, place=None, written=None):
    """Make the line of an outcome."""
    error = None
    if place is None:
        classes = ["InvalidRecordError", "KafkaGuardError"]
        error = {"classes": classes, "text": "", "action": "REJECT", "cause": None}
        error["written"] = written
    return {"kind": "told", "at": 1.0, "record": record, "place": place, "error": error}


def done(count):
    """Make the lines of steps that were done in no time, and of the end."""
    for number in range(count):
        yield {"kind": "step", "at": 1.0, "number": number, "step": "send"}
        yield {"kind": "done", "at": 1.0, "number": number}


def kinds(played_program, lines, logs=None, **more):
    """Return the kinds of what the judge finds."""
    count = len(played_program.steps)
    lines = [*done(count), *lines, {"kind": "end", "at": 2.0}]
    played = Played(lines, {"plain": {0: logs or []}}, **more)
    return [each.kind for each in findings(played_program, played)]


class TestJudgeOfProducers:
    """Each broken promise of a producer is found."""

    ONE = produced(Step("send", {"records": [SENT]}))
    TWO = produced(Step("send", {"records": [SENT, SENT]}))
    THERE = ("plain", 0, 0)

    def test_a_kept_promise_is_no_finding(self):
        """A delivered record is at its place, a refused one is nowhere."""
        assert kinds(self.ONE, [told("r0", self.THERE)], [(0, "r0")]) == []
        assert kinds(self.ONE, [told("r0", written="no")]) == []
        assert kinds(self.ONE, [told("r0", written="maybe")], [(0, "r0")]) == []

    def test_a_delivered_record_that_is_not_there_is_lost(self):
        """A record that was reported delivered and is not in the topic is lost."""
        assert "lost" in kinds(self.ONE, [told("r0", self.THERE)])

    def test_a_delivered_record_at_another_offset_is_misplaced(self):
        """The offset that was told is where the record is."""
        lines = [told("r0", ("plain", 0, 4))]
        assert kinds(self.ONE, lines, [(0, "r0")]) == ["misplaced"]

    def test_a_record_told_as_not_written_that_is_there_is_a_ghost(self):
        """A record with written='no' that is in the topic is a ghost."""
        assert kinds(self.ONE, [told("r0", written="no")], [(0, "r0")]) == ["ghost"]

    def test_a_record_that_is_there_twice_is_doubled(self):
        """An idempotent producer writes each record once."""
        logs = [(0, "r0"), (1, "r0")]
        assert kinds(self.ONE, [told("r0", self.THERE)], logs) == ["doubled"]
        bound = {"kind": "maybe_twice", "at": 2.0, "count": 1}
        assert kinds(self.ONE, [told("r0", self.THERE), bound], logs) == []
        plain = produced(*self.ONE.steps, idempotent=False)
        assert kinds(plain, [told("r0", self.THERE)], logs) == []

    def test_a_record_without_an_outcome_is_untold(self):
        """Each record that was sent has one outcome."""
        assert kinds(self.ONE, []) == ["untold"]
        lines = [told("r0", self.THERE)] * 2
        assert kinds(self.ONE, lines, [(0, "r0")]) == ["told twice"]

    def test_a_program_that_ends_before_it_is_killed_owes_no_outcomes(self):
        """The last records of a program that ends early need no outcome."""
        assert kinds(produced(*self.ONE.steps, Step("die", {"after": 0.3})), []) == []

    def test_a_newer_record_of_a_key_comes_last(self):
        """The order of a key is the order of its sends."""
        lines = [told("r0", ("plain", 0, 1)), told("r1", ("plain", 0, 0))]
        assert kinds(self.TWO, lines, [(0, "r1"), (1, "r0")]) == ["order"]

    def test_a_second_copy_of_a_record_is_doubled_and_not_out_of_order(self):
        """Its first copy is where it belongs; one fault is one finding."""
        lines = [told("r0", ("plain", 0, 0)), told("r1", ("plain", 0, 1))]
        logs = [(0, "r0"), (1, "r1"), (2, "r0")]
        assert kinds(self.TWO, lines, logs) == ["doubled"]

    def test_a_call_that_takes_too_long_is_late(self):
        """The time of a call is its own, and a margin."""
        slow = produced(Step("flush", {"seconds": 1}))
        lines = [
            {"kind": "step", "at": 0.0, "number": 0, "step": "flush"},
            {"kind": "done", "at": 60.0, "number": 0},
            {"kind": "end", "at": 60.0},
        ]
        found = findings(slow, Played(lines, {"plain": {}}))
        assert [each.kind for each in found] == ["late"]

    def test_an_exception_that_no_client_documents_is_found(self):
        """An AttributeError is a fault of the guard or of the client."""
        error = {"classes": ["AttributeError"], "text": "x", "cause": None}
        lines = [
            told("r0", self.THERE),
            {"kind": "raised", "number": 0, "error": error},
        ]
        assert kinds(self.ONE, lines, [(0, "r0")]) == ["undocumented"]


class TestJudgeOfTransactions:
    """Readers of committed records see all of a transaction or nothing."""

    STEPS = (Step("begin"), Step("send", {"records": [SENT, SENT]}), Step("commit"))
    COMMITTED = produced(*STEPS, role="transactions")
    ABORTED = produced(*STEPS[:2], Step("abort"), *STEPS, role="transactions")
    BOTH = (told("r0", ("plain", 0, 0)), told("r1", ("plain", 0, 1)))

    def test_all_of_a_committed_transaction_is_there(self):
        """A commit that returned is the whole transaction."""
        assert kinds(self.COMMITTED, self.BOTH, [(0, "r0"), (1, "r1")]) == []
        assert kinds(self.COMMITTED, self.BOTH, [(0, "r0")]) == ["half"]

    def test_nothing_of_an_aborted_transaction_is_there(self):
        """A record of an aborted transaction in the topic is an error."""
        lines = (*self.BOTH, told("r2", ("plain", 0, 2)), told("r3", ("plain", 0, 3)))
        logs = [(2, "r2"), (3, "r3")]
        assert kinds(self.ABORTED, lines, logs) == []
        assert "half" in kinds(self.ABORTED, lines, [(0, "r0"), *logs])

    def test_a_producer_whose_last_transaction_fails_is_stuck(self):
        """A producer whose last transaction fails without faults is stuck."""
        error = {"classes": ["KafkaError"], "text": "no", "cause": None}
        lines = [*self.BOTH, {"kind": "raised", "number": 2, "error": error}]
        assert kinds(self.COMMITTED, lines) == ["stuck"]


def handed(*records):
    """Make the line of records that were handed out."""
    return {"kind": "handed", "at": 1.0, "who": "main", "records": [*records]}


class TestJudgeOfConsumers:
    """Nothing is committed or passed over that nobody handed out."""

    READ = Program(0, "kafka-python", "consumer", {}, [Step("poll", {"seconds": 1})])
    ALL = tuple(handed(*((p, o) for o in range(30))) for p in range(3))

    def test_everything_read_and_committed_is_no_finding(self):
        """All records were handed out, in order."""
        committed = {0: 30, 1: 30, 2: 7}
        assert kinds(self.READ, self.ALL, committed=committed) == []

    def test_a_committed_record_that_nobody_got_is_lost(self):
        """A record below the committed offset that nobody received is lost."""
        lines = [handed((0, 0), (0, 1))]
        assert "lost" in kinds(self.READ, lines, committed={0: 3})

    def test_a_record_that_was_passed_over_is_skipped(self):
        """Later ones of its partition were handed out."""
        assert "skipped" in kinds(self.READ, [handed((0, 0)), handed((0, 2))])
        assert "hole" in kinds(self.READ, [handed((0, 0), (0, 2))])

    def test_a_reader_that_does_not_get_to_the_end_is_stuck(self):
        """A reader that does not receive all records without faults is stuck."""
        assert kinds(self.READ, self.ALL[:2]) == ["stuck"]

    def test_a_process_that_ends_by_itself_has_crashed(self):
        """Only a program that kills itself may end without its last line."""
        found = findings(self.READ, Played([*done(1), *self.ALL], exit_code=-6))
        assert [each.kind for each in found] == ["crashed"]
        killed = Program(0, "aiokafka", "consumer", {}, [*self.READ.steps, Step("die")])
        assert findings(killed, Played([*done(1), *self.ALL], exit_code=-9)) == []
