"""Files that are no policies, and policies that cannot be meant."""

from __future__ import annotations

import logging
import os

import pytest
from click.testing import CliRunner

from kafkaguard import RetryPolicy, load_policy, retry
from kafkaguard.cli.group import cli
from kafkaguard.errors import BreakerOpenError, PolicyError
from kafkaguard.policies import PolicyWatcher, outcome_of, retry_testing
from kafkaguard_policies.advice.ineffective_settings import find_doubts
from kafkaguard_policies.running.retrier import Retrier
from tests.policies.helpers import FakeTime, Script, retrier

_BOMB = "a: &a [1]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.yaml", b"3: 4\n", "line 1: the key '3' is not text"),
        ("a.yaml", b"deadline: 3\nnull: 4\n", "line 2: the key 'null' is not text"),
        ("a.yaml", b"[1, 2]: 4\n", "line 1: the key 'a sequence' is not text"),
        ("a.yaml", b"? {a: 1}\n: 2\n", "line 1: the key 'a mapping' is not text"),
        ("a.yaml", b"backoff: {3: 4}\n", "line 1: backoff: the key '3' is not text"),
        ("a.yaml", b"\x00\x01", "line 1: is not text"),
        ("a.yaml", b"[" * 3000, "is nested too deeply"),
        ("a.yaml", b"backoff: &a {base: *a}\n", "is nested too deeply"),
        ("a.yaml", _BOMB.encode(), "once aliases are followed"),
        ("a.yaml", b"max_attempts: !!int x\n", "a value that YAML cannot read"),
        ("a.yaml", b"# \n" * 400_000, "a policy at most 1048576"),
        ("a.yaml", b"deadline: 3\nname: caf\xe9\n", "line 2: is not UTF-8: save it"),
        ("a.yaml", b"deadline: 010\n", "line 1: deadline: must be a number of seconds"),
        ("a.yaml", b"deadline: 1:30\n", "must be a number of seconds"),
        ("a.yaml", b"deadline: .inf\n", "or the word 'unbounded'"),
        (
            "a.yaml",
            b'rescue: "maybe"\n',
            "line 1: rescue: must be 'ordered', 'any_order' or",
        ),
        ("a.yaml", b"rescue: 1\n", "line 1: rescue: must be 'ordered', 'any_order' or"),
        ("a.yaml", b'dead_letter: {topic: "{topic}"}\n', "the record's own topic"),
        ("a.yaml", b'dead_letter: {topic: ".."}\n', "not a valid topic name"),
        ("a.toml", b"", "must be a mapping of settings, not nothing"),
        ("a.toml", b"# nothing\n", "must be a mapping of settings, not nothing"),
        ("a.toml", b"a = " + b"[" * 3000, "is nested too deeply"),
        ("a.toml", b"deadline = inf\n", "or the word 'unbounded'"),
        ("a.yaml", b"name: {a: ${A}}\n", 'write "${NAME}" in quotes'),
        ("a.json", b"{}", "a policy file's name ends in .yaml, .yml or .toml"),
        ("a.conf", b"", "a policy file's name ends in .yaml, .yml or .toml"),
    ],
)
def test_what_is_no_policy_is_refused_in_a_line(tmp_path, name, content, said):
    """The command exits with 2 and says what is wrong, whatever the file holds."""
    path = tmp_path / name
    path.write_bytes(content)
    result = CliRunner().invoke(cli, ["policy", "check", str(path)])
    assert (result.exit_code, said in result.output) == (2, True), result.output


def test_a_directory_is_said_to_be_one(tmp_path, monkeypatch):
    """It is not a preset's name, and a preset's name is not a directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    (tmp_path / "default").mkdir()
    (tmp_path / "a.yaml").write_text("extends: orders\n")
    for source in (".", "orders", "..", str(tmp_path), "a.yaml"):
        result = CliRunner().invoke(cli, ["policy", "check", source])
        assert result.exit_code == 2
        assert "is a directory: name a file, or a preset" in result.output
    assert CliRunner().invoke(cli, ["policy", "check", "default"]).exit_code == 0
    empty = CliRunner().invoke(cli, ["policy", "check", ""])
    assert "there is no preset ''" in empty.output


def test_what_is_no_regular_file_is_refused(tmp_path):
    """A pipe would block for ever, a device would never end."""
    pipe, device, folder = (tmp_path / f"{name}.yaml" for name in "abc")
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    folder.mkdir()
    for path in (pipe, device, folder):
        with pytest.raises(PolicyError, match=r"cannot be read: it is not a regular"):
            load_policy(path)


def test_keys_of_a_mapping_in_python_too():
    """A key that is not text is a mistake of the policy, not of the library."""
    with pytest.raises(PolicyError):
        load_policy({3: 4})


def test_only_the_word_removes_a_bound():
    """Infinity is out of range; a copy of an unbounded policy stays unbounded."""
    with pytest.raises(ValueError, match="unbounded"):
        RetryPolicy(deadline=float("inf"))
    policy = RetryPolicy(deadline="unbounded", max_attempts="unbounded")
    assert policy.replace(rescue="never").deadline == float("inf")


def test_a_watcher_reports_a_wrong_file_once(tmp_path, caplog):
    """In a sentence that names the policy that stays; no traceback."""
    path = tmp_path / "a.yaml"
    path.write_text("max_attempts: 3\n")
    watcher = PolicyWatcher(path)
    path.write_text("[" * 3000)
    with caplog.at_level(logging.ERROR, "kafkaguard.policies"):
        assert "nested" in watcher.reload().problem
        assert watcher.reload() is None
    (record,) = caplog.records
    assert record.exc_info is None
    assert f"{watcher.policy.policy_id} stays in force" in record.getMessage()


@pytest.mark.parametrize("interval", [0, -1, float("nan")])
def test_a_watcher_that_would_spin_is_refused(interval):
    """An interval of 0 or less raises ValueError."""
    with pytest.raises(ValueError, match="interval"):
        PolicyWatcher("default", interval=interval)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"deadline": 1, "backoff": {"base": 5, "jitter": "none"}}, "no retry ever"),
        (
            {"deadline": 1, "breaker": {"open_for": 9, "when_open": "pause"}},
            "not wait for the probe",
        ),
        (
            {
                "on_reject": "dead_letter",
                "dead_letter": {"topic": "refused"},
                "overrides": [{"when": {"topic": "refused"}, "max_attempts": 2}],
            },
            "has no dead letter",
        ),
    ],
)
def test_settings_without_effect_are_warned_of(settings, said):
    """A valid policy whose settings have no effect has a warning."""
    (doubt,) = find_doubts(load_policy(settings))
    assert said in doubt


@pytest.mark.parametrize(
    "settings",
    [
        {"dead_letter": {"topic": "refused"}, "on_reject": "dead_letter"},
        {
            "dead_letter": {"topic": "refused"},
            "on_reject": "dead_letter",
            "overrides": [{"when": {"topic": "refused"}, "on_reject": "raise"}],
        },
        {
            "on_reject": "dead_letter",
            "overrides": [{"when": {"topic": "t"}, "max_attempts": 2}],
        },
    ],
)
def test_a_dead_letter_topic_of_its_own_is_no_cause_for_warnings(settings):
    """As long as nothing says that its own records are dead-lettered into it."""
    assert find_doubts(load_policy(settings)) == ()


def test_check_prints_warnings(tmp_path):
    """In a line below ``good``, and the exit code stays 0."""
    path = tmp_path / "a.yaml"
    path.write_text("deadline: 1\nbackoff: {base: 5, jitter: none}\n")
    result = CliRunner().invoke(cli, ["policy", "check", str(path)])
    assert (result.exit_code, "\n  warning: deadline" in result.output) == (0, True)


def test_mistakes_in_the_environment_are_told_together(monkeypatch):
    """Each of them has the name of its variable."""
    monkeypatch.setenv("KAFKAGUARD_POLICY_OVERRIDES", "[{")
    monkeypatch.setenv("KAFKAGUARD_POLICY_BACKOFF", "{")
    monkeypatch.setenv("KAFKAGUARD_POLICY_DEADLINE", "soon")
    with pytest.raises(PolicyError) as caught:
        load_policy("env")
    said = str(caught.value)
    assert "KAFKAGUARD_POLICY_OVERRIDES: is not JSON" in said
    assert "KAFKAGUARD_POLICY_BACKOFF: is not JSON" in said
    assert "KAFKAGUARD_POLICY_DEADLINE: must be a number" in said


def test_words_and_digits_in_the_environment(monkeypatch):
    """All is text there: booleans may be words, names may be digits."""
    monkeypatch.setenv("KAFKAGUARD_POLICY_RESCUE", "never")
    monkeypatch.setenv("KAFKAGUARD_POLICY_NAME", "7")
    policy = load_policy("env")
    assert (policy.rescue, policy.name) == ("never", "7")


@pytest.mark.parametrize(
    ("deadline", "error"),
    [
        ("x", TypeError),
        (True, TypeError),
        (-1, ValueError),
        (0, ValueError),
        (float("nan"), ValueError),
    ],
)
def test_a_deadline_is_checked_before_the_call(deadline, error):
    """The function is not called with a bound that is none."""
    script = Script(1)
    with pytest.raises(error, match="a deadline is a number of seconds above 0"):
        RetryPolicy().call(script, deadline=deadline)
    assert script.calls == 0


@pytest.mark.parametrize("hooks", [print, ["no"], "text"])
def test_hooks_are_checked_at_once(hooks):
    """A list of callables, and nothing else."""
    with pytest.raises(TypeError, match="hook"):
        Retrier(RetryPolicy(), hooks=hooks)


def test_only_exceptions_are_forced():
    """force() takes exceptions, and None for a real call."""
    with retry_testing() as testing, pytest.raises(TypeError, match="takes exceptions"):
        testing.force("nonsense")


def test_an_open_breaker_says_since_when_and_until_when():
    """The error has the age of the open breaker and the time of the next probe."""
    time = FakeTime()
    policy = RetryPolicy(max_attempts=1, breaker={"failures": 1, "open_for": 30})
    one = retrier(policy, time)
    with pytest.raises(ConnectionError):
        one.run(Script(ConnectionError()))
    time.now += 10
    with pytest.raises(BreakerOpenError) as caught:
        one.run(Script(1))
    said = str(caught.value)
    assert "the circuit breaker is open since 10 s" in said
    assert "lets a probe through in 20 s" in said


def test_the_decorator_follows_a_watched_file(tmp_path):
    """The policy of the moment holds for the next call."""
    path = tmp_path / "a.yaml"
    path.write_text("max_attempts: 2\n")
    watcher = PolicyWatcher(path)
    script = Script(ConnectionError())
    guarded = retry(watcher, api="Metadata")(script)
    path.write_text("max_attempts: 4\n")
    watcher.reload()
    with retry_testing(), pytest.raises(ConnectionError):
        guarded()
    assert script.calls == 4


def test_what_is_no_exception_has_no_outcome():
    """A bare ``KafkaError`` of confluent-kafka can be raised, yet has no cause."""
    assert outcome_of(object()) is None


def test_too_many_values_are_told_with_a_line(tmp_path):
    """The line of the first one too many."""
    file = tmp_path / "a.yaml"
    file.write_text("a:\n" + "- 1\n" * 30_000)
    with pytest.raises(PolicyError, match=r"line \d{5}: has more than 20000 values"):
        load_policy(file)
