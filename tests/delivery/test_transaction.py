"""How a transaction ends, without a client: calls that fail as they are told."""

from __future__ import annotations

import pytest

from kafkaguard import Action, errors, load_policy
from kafkaguard._delivery.transaction import NOT_ABORTED, Next, TransactionRun
from kafkaguard._verdicts.classification import classify
from kafkaguard_adapters.kafka_python.transaction_errors import words
from kafkaguard_adapters.producing.time_limit import TimeLimit
from kafkaguard_adapters.producing.transaction_block import transaction
from kafkaguard_adapters.producing.transaction_words import COMMIT

POLICY = load_policy({"max_attempts": 3, "backoff": {"base": 0.001, "jitter": "none"}})


def failure(code, phase="commit", verdict=None):
    """Make the error of a call that is answered with a code."""
    verdict = verdict or classify(code, api="EndTxn", phase=phase, transactional=True)
    return verdict.error_class("said so", verdict=verdict)


class Calls:
    """Transactional calls that fail in turn; None: that one succeeds."""

    def __init__(self, final=(), **failures):
        self.made = []
        self._failures = failures
        self._final = final

    def _make(self, call):
        self.made.append(call)
        left = self._failures.get(call)
        self._last = left.pop(0) if left else None
        if self._last is not None:
            raise self._last

    def begin(self):
        """Begin."""
        self._make("begin")

    def commit(self):
        """Commit."""
        self._make("commit")

    def abort(self):
        """Abort."""
        self._make("abort")

    def can_ask_again(self):
        """Not after what is final."""
        return self._last not in self._final


def end(calls, raised=None):
    """Run a block; return what it raises."""
    try:
        with transaction(calls, POLICY):
            if raised is not None:
                raise raised
    except BaseException as error:
        return error
    return None


def test_a_block_begins_and_commits():
    """One call each."""
    calls = Calls()
    assert end(calls) is None
    assert calls.made == ["begin", "commit"]


@pytest.mark.parametrize("code", [51, 7, 15, errors.ClientTimeoutError()])
def test_a_commit_without_an_answer_is_asked_again(code):
    """The coordinator carries it out once."""
    calls = Calls(commit=[failure(code), failure(code)])
    assert end(calls) is None
    assert calls.made == ["begin", "commit", "commit", "commit"]


def test_a_commit_of_unknown_result_is_neither_asked_again_nor_aborted():
    """Where its client has given it up."""
    lost = failure(errors.ClientTimeoutError())
    calls = Calls(commit=[lost], final=[lost])
    assert lost is end(calls)
    assert calls.made == ["begin", "commit"]


def test_asking_again_ends_with_the_attempts_of_the_policy():
    """Nothing is aborted then, because the transaction may be committed."""
    calls = Calls(commit=[failure(51) for _ in range(9)])
    assert end(calls).code == 51
    assert calls.made == ["begin", "commit", "commit", "commit"]


@pytest.mark.parametrize("code", [47, 49, 90])
def test_a_dead_or_fenced_client_aborts_nothing(code):
    """It is not let do so, and must not try."""
    calls = Calls(commit=[failure(code)])
    assert end(calls).code == code
    assert calls.made == ["begin", "commit"]


@pytest.mark.parametrize("code", [29, 53, 120])
def test_a_refused_commit_is_aborted_once(code):
    """The caller gets the error of the commit."""
    calls = Calls(commit=[failure(code)])
    assert end(calls).code == code
    assert calls.made == ["begin", "commit", "abort"]


@pytest.mark.parametrize("in_body", [True, False])
def test_an_error_of_a_block_does_not_advise_to_abort(in_body):
    """The block has done so; a second abort would be refused."""
    record = errors.MessageTooLargeError("too large", api="Produce", topic="t")
    failed = words.abort_first(record, COMMIT)
    calls = Calls(commit=[failed], final=[failed])
    assert end(calls, failed if in_body else None) is failed
    assert calls.made[-1] == "abort"
    assert failed.verdict.action is Action.ABORT
    assert "(MESSAGE_TOO_LARGE): the block has aborted it: begin again without it" in (
        str(failed)
    )
    assert str(failed).endswith("ABORT: the transaction was aborted: begin another one")


def test_a_block_that_cannot_abort_leaves_the_advice():
    """The transaction is still open."""
    failed = words.abort_first(errors.KafkaGuardError("said so"), COMMIT)
    refused = failure(48, "abort")
    calls = Calls(abort=[refused], final=[refused])
    assert end(calls, failed) is failed
    assert "call abort_transaction(), then begin again" in str(failed)


def test_a_block_advises_no_second_commit_after_its_abort():
    """Records had no outcome until the last attempt of the policy."""
    late = [words.pending(COMMIT, TimeLimit(2.0, "max_block_ms")) for _ in range(3)]
    calls = Calls(commit=late)
    raised = end(calls)
    assert calls.made == ["begin", *["commit"] * 3, "abort"]
    assert "commit_transaction" not in str(raised)


@pytest.mark.parametrize(
    "raised", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()], ids=repr
)
def test_a_block_that_is_interrupted_is_aborted(raised):
    """Ctrl-C leaves no open transaction, which would hold up its readers."""
    calls = Calls()
    assert end(calls, raised) is raised
    assert calls.made == ["begin", "abort"]


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), ValueError()], ids=repr)
def test_an_abort_that_fails_does_not_hide_why_the_block_ended(raised):
    """The second error is a note of the first one."""
    refused = failure(48, "abort")
    calls = Calls(abort=[refused], final=[refused])
    assert end(calls, raised) is raised
    (note,) = raised.__notes__
    assert "besides, its transaction was not aborted" in note


def test_a_second_block_is_not_told_of_the_first_one():
    """The first one could not be committed, and was aborted."""
    calls = Calls(commit=[failure(120)])
    assert end(calls).code == 120
    assert end(calls) is None
    assert calls.made == ["begin", "commit", "abort", "begin", "commit"]


def test_an_abort_without_an_answer_is_asked_again():
    """It is under way."""
    calls = Calls(abort=[failure(51, "abort"), None])
    assert isinstance(end(calls, ValueError()), ValueError)
    assert calls.made == ["begin", "abort", "abort"]


def test_an_abort_that_fails_for_good_is_made_once():
    """Its error is raised, from that of the commit."""
    refused, dead = failure(120), failure(120, "abort")
    assert NOT_ABORTED.action == dead.verdict.action == "RECREATE"
    calls = Calls(commit=[refused], abort=[dead])
    error = end(calls)
    assert error is dead
    assert error.__context__ is refused
    assert calls.made == ["begin", "commit", "abort"]


def test_what_the_body_raises_goes_first():
    """What failed besides is noted on it."""
    mine = ValueError("mine")
    calls = Calls(abort=[failure(120, "abort")])
    assert mine is end(calls, mine)
    assert "was not aborted" in mine.__notes__[0]
    assert calls.made == ["begin", "abort"]


@pytest.mark.parametrize("code", [7, errors.ClientTimeoutError()])
@pytest.mark.parametrize("is_in_doubt", [True, False])
def test_what_a_block_has_aborted_is_not_in_doubt(code, is_in_doubt):
    """Its body could not send offsets; no commit was requested."""
    api = "TxnOffsetCommit"
    verdict = classify(code, api=api, transactional=True)
    if is_in_doubt:
        verdict = classify(errors.ClientTimeoutError(), api="EndTxn", phase="commit")
        assert verdict.action is Action.IN_DOUBT
    failed = verdict.error_class("no answer", verdict=verdict, api=api)
    calls = Calls()
    assert failed is end(calls, failed)
    assert calls.made == ["begin", "abort"]
    assert failed.verdict.action is (Action.ABORT if is_in_doubt else Action.RETRY)
    assert failed.verdict.written == "no"
    assert str(failed).endswith("the transaction was aborted: begin another one")


def test_a_body_that_was_fenced_aborts_nothing():
    """As a commit would."""
    calls = Calls()
    fenced = failure(90)
    assert fenced is end(calls, fenced)
    assert calls.made == ["begin"]


def test_a_begin_is_made_again_where_that_helps():
    """The one before is still ending."""
    still_ending = failure(51, None, classify(51, api="InitProducerId"))
    calls = Calls(begin=[still_ending, None])
    assert end(calls) is None
    assert calls.made == ["begin", "begin", "commit"]


def test_the_wait_is_that_of_the_policy():
    """From the run itself: its driver only sleeps."""
    policy = load_policy({"backoff": {"base": 0.5, "jitter": "none"}})
    run = TransactionRun(policy, random=lambda: 0.0)
    run.starts("commit", 10.0)
    assert run.failed(failure(51), 11.0, can_ask_again=True) == Next("again", 0.5)
    assert run.failed(failure(90), 12.0, can_ask_again=True) == ("raise", 0.0)
