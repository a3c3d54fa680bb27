"""The preview of a schedule: numbers, table, JSON and picture."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard import Action, RetryPolicy, classify, load_policy
from kafkaguard._errors.generated import BY_CODE
from kafkaguard_policies.advice.explain import explain_ruling
from kafkaguard_policies.reading.sources import presets


def test_without_jitter_the_preview_is_the_schedule():
    """Expected, percentiles and worst case are the same exact waits."""
    policy = RetryPolicy(backoff={"jitter": "none"})
    rows = policy.preview(runs=10).rows
    assert [row.attempt for row in rows] == [2, 3, 4, 5]
    for row, wait in zip(rows, [0.1, 0.2, 0.4, 0.8], strict=True):
        assert [wait] * 4 == pytest.approx([row.expected, row.low, row.high, row.worst])
    assert rows[-1].worst_elapsed == pytest.approx(1.5)


def test_full_jitter_is_half_the_wait_on_average():
    """What the formula says, within the error of 5,000 draws."""
    rows = RetryPolicy().preview(runs=5_000).rows
    for row in rows:
        assert row.expected == pytest.approx(row.worst / 2, rel=0.05)
        assert row.low == pytest.approx(row.worst * 0.05, rel=0.3)
        assert row.high == pytest.approx(row.worst * 0.95, rel=0.05)


@given(st.sampled_from(presets()), st.integers(0, 99))
def test_the_same_seed_gives_the_same_preview(name, seed):
    """The band of waits lies between 0 and the worst case."""
    policy = load_policy(name)
    one = policy.preview(seed=seed, runs=20, limit=8)
    assert one == policy.preview(seed=seed, runs=20, limit=8)
    for row in one.rows:
        assert policy.backoff.floor <= row.low <= row.expected <= row.high <= row.worst


def test_the_deadline_cuts_the_schedule():
    """Waits that no schedule reaches in time are not shown."""
    policy = RetryPolicy(
        max_attempts=100,
        deadline=3,
        backoff={"kind": "fixed", "base": 1, "jitter": "none"},
    )
    preview = policy.preview(runs=5)
    assert [row.attempt for row in preview.rows] == [2, 3]
    assert preview.complete


def test_a_long_schedule_says_that_it_goes_on():
    """The table ends in dots, the JSON says complete: false."""
    preview = load_policy("bulk-load").preview(runs=5, limit=3)
    assert len(preview.rows) == 3
    assert not preview.complete
    assert str(preview).endswith("...")


def test_waits_cost_no_attempt():
    """The schedule of WAIT stays at attempt 1."""
    preview = RetryPolicy(max_waits=3).preview(action=Action.WAIT, runs=5)
    assert [row.attempt for row in preview.rows] == [1, 1, 1]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (Action.REJECT, "stops: it can never succeed"),
        (Action.CONFIGURE, "stops: configuration"),
        (Action.FENCED, "stops: another instance"),
        (Action.IN_DOUBT, "stops: it may have been done already"),
        (Action.IGNORE, "goes on: it is not a failure"),
    ],
)
def test_what_ends_a_call_has_no_wait_and_says_why(action, said):
    """The table and the JSON give the reason in place of waits."""
    preview = RetryPolicy().preview(action=action, runs=5)
    assert (preview.rows, preview.complete) == ((), True)
    assert str(preview).splitlines()[1].startswith(said)
    assert json.loads(preview.to_json())["ending"].startswith(said)


@pytest.mark.parametrize("action", Action)
def test_preview_is_what_the_engine_does_with_the_first_failure(action):
    """With and without leave to do again what is in doubt."""
    for policy in (RetryPolicy(), RetryPolicy(in_doubt="resend")):
        code = next(c for c in BY_CODE if classify(c).action is action)
        said = explain_ruling(policy, classify(code), error=code)
        preview = policy.preview(action=action, runs=5)
        assert bool(preview.rows) == ("tries again" in said)
        assert preview.ending is None or preview.ending in said


def test_preview_heeds_an_override_of_the_action():
    """A preview uses the overrides of the action, except for FENCED."""
    override = {"when": {"action": "REJECT"}, "action": "RETRY", "max_attempts": 3}
    rows = RetryPolicy(overrides=[override]).preview(action=Action.REJECT).rows
    assert [row.attempt for row in rows] == [2, 3]
    override = {"when": {"topic": "*"}, "action": "RETRY"}
    assert not RetryPolicy(overrides=[override]).preview(action=Action.FENCED).rows


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"max_attempts": 1}, "stops: all attempts"),
        ({"deadline": 0.001, "backoff": {"jitter": "none"}}, "after the deadline"),
    ],
)
def test_a_policy_without_waits_says_why(policy, said):
    """One attempt only, or no time for another."""
    assert said in RetryPolicy(**policy).preview(runs=5).ending


def test_a_policy_whose_draws_are_all_too_late_says_why():
    """Only the shortest possible wait would end before the deadline."""
    policy = RetryPolicy(deadline=0.001, backoff={"base": 5})
    assert "tries again" in explain_ruling(policy, classify(14))
    assert "after the deadline" in policy.preview(runs=2).ending


@pytest.mark.parametrize(("deadline", "again"), [(1, False), (1.01, True)])
def test_the_first_wait_is_compared_with_the_whole_deadline(deadline, again):
    """The policy's or an override's; the call begins with its first failure."""
    backoff = {"base": 1, "jitter": "none"}
    override = {"when": {"code": 14}, "deadline": deadline}
    for settings in ({"deadline": deadline}, {"overrides": [override]}):
        policy = RetryPolicy(backoff=backoff, **settings)
        assert again == ("tries again" in explain_ruling(policy, classify(14)))


@pytest.mark.parametrize(
    ("code", "api", "repair"),
    [
        (6, "Fetch", "refreshes metadata or the coordinator, then "),
        (
            22,
            "OffsetCommit",
            "polls, checks that the partitions are still owned, then ",
        ),
        (120, "EndTxn", "aborts the transaction, then "),
        (45, "Produce", "builds a new client, then "),
        (14, "FindCoordinator", ""),
    ],
)
def test_the_repair_before_the_next_attempt_is_named(code, api, repair):
    """As if the caller could do all of them."""
    policy = RetryPolicy(in_doubt="resend")
    said = explain_ruling(policy, classify(code, api=api))
    head = f"policy custom ({policy.policy_id}) {repair}waits up to 0.1 s and tries"
    assert said == f"{head} again, at most 5 attempts in all, within 120 s"


@pytest.mark.parametrize("name", presets())
def test_table_and_json_of_every_preset(name):
    """Both show each row; a preset without retries shows none."""
    preview = load_policy(name).preview(runs=50, limit=10)
    rows = len(preview.rows)
    data = json.loads(preview.to_json())
    assert (rows, name) == (len(data["rows"]), data["policy"])
    assert len(str(preview).splitlines()) == 2 + rows + (not preview.complete)


@pytest.mark.parametrize("name", ["seed", "runs", "limit"])
def test_what_is_no_whole_number_is_refused(name):
    """The TypeError has the name of the argument that is not a whole number."""
    with pytest.raises(TypeError, match=name):
        RetryPolicy().preview(**{name: 2.5})


@pytest.mark.parametrize("wrong", [{"runs": 1}, {"limit": 0}])
def test_too_little_is_refused(wrong):
    """No percentile of one number, no table without rows."""
    with pytest.raises(ValueError, match=r"a whole number of [12] or more"):
        RetryPolicy().preview(**wrong)
