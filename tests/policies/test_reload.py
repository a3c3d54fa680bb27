"""A policy file that changes while the program runs."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from kafkaguard import RetryPolicy, errors
from kafkaguard.errors import PolicyError
from kafkaguard.events import ReloadEvent
from kafkaguard.policies import PolicyWatcher
from kafkaguard_policies.running.retrier import Retrier
from tests.policies.helpers import FakeTime, Script, retrier


@pytest.fixture
def file(tmp_path):
    """A policy file with three attempts."""
    path = tmp_path / "policy.yaml"
    path.write_text("max_attempts: 3\n")
    return path


def test_a_change_takes_effect(file):
    """The new policy is in force, and subscribers and hooks are told."""
    seen = []
    watcher = PolicyWatcher(file, hooks=[seen.append])
    one = Retrier(watcher.policy)
    watcher.subscribe(one.use)
    old = watcher.policy.policy_id
    assert watcher.reload() is None
    file.write_text("max_attempts: 7\n")
    event = watcher.reload()
    assert seen == [event]
    assert isinstance(event, ReloadEvent)
    assert (old, watcher.policy.policy_id, None) == (
        event.old_policy_id,
        event.policy_id,
        event.problem,
    )
    assert (watcher.policy.max_attempts, one.policy.max_attempts) == (7, 7)


def test_a_call_that_is_under_way_keeps_its_policy():
    """A reload in the middle of a call counts from the next call on."""
    time, script = FakeTime(), Script(errors.CoordinatorLoadInProgressError())
    one = retrier(RetryPolicy(max_attempts=3), time)

    def call():
        one.use(RetryPolicy(max_attempts=9))
        return script()

    with pytest.raises(errors.CoordinatorLoadInProgressError):
        one.run(call)
    assert script.calls == 3
    assert one.policy.max_attempts == 9


def test_a_mistake_keeps_the_old_policy_and_reports_both(file, caplog):
    """Which policy stays in force, and what is wrong with the file; once."""
    seen = []
    watcher = PolicyWatcher(file, hooks=[seen.append])
    old = watcher.policy
    file.write_text("max_attempts: 3\nmax_attemps: 9\n")
    with caplog.at_level(logging.ERROR, "kafkaguard.policies"):
        event = watcher.reload()
        assert watcher.reload() is None
    assert old is watcher.policy
    assert old.policy_id == event.policy_id == event.old_policy_id
    assert "line 2: max_attemps" in event.problem
    (record,) = caplog.records
    assert old.policy_id in record.getMessage()
    assert "line 2: max_attemps" in record.getMessage()
    file.write_text("max_attempts: 3\n")
    assert watcher.reload().problem is None
    assert [bool(e.problem) for e in seen] == [True, False]


def test_a_file_that_vanishes_keeps_the_old_policy(file):
    """Editors replace files; for a moment there is none."""
    watcher = PolicyWatcher(file)
    file.unlink()
    assert "No such file" in watcher.reload().problem
    assert watcher.policy.max_attempts == 3


def test_a_file_that_is_wrong_at_the_start_is_an_error(tmp_path):
    """There is no old policy to keep."""
    with pytest.raises(PolicyError):
        PolicyWatcher(tmp_path / "nowhere.yaml")


def test_a_broken_subscriber_stops_nobody(file, caplog):
    """It is logged, and the next one takes the policy."""
    watcher, seen = PolicyWatcher(file), []
    watcher.subscribe(Script(RuntimeError("bug")))
    watcher.subscribe(seen.append)
    file.write_text("max_attempts: 7\n")
    with caplog.at_level(logging.ERROR, "kafkaguard.policies"):
        watcher.reload()
    assert seen == [watcher.policy]
    assert "raised an exception for the new policy" in caplog.text


def test_the_thread_looks_by_itself_and_ends_when_told(file):
    """Started and stopped by the with block, within bounds."""
    taken = threading.Event()
    watcher = PolicyWatcher(file, interval=0.01, hooks=[lambda _: taken.set()])
    with watcher:
        file.write_text("max_attempts: 7\n")
        assert taken.wait(10)
    names = [thread.name for thread in threading.enumerate()]
    assert "kafkaguard-policy" not in names
    assert watcher.policy.max_attempts == 7


def test_a_watcher_can_be_started_again(file):
    """After a stop it looks anew; a second start makes no second thread."""
    taken = threading.Event()
    watcher = PolicyWatcher(file, interval=0.01, hooks=[lambda _: taken.set()])
    watcher.start()
    watcher.stop()
    assert watcher.start() is watcher
    threads = [t for t in threading.enumerate() if t.name == "kafkaguard-policy"]
    assert watcher.start() is watcher
    try:
        (thread,) = threads
        assert thread.daemon
        file.write_text("max_attempts: 7\n")
        assert taken.wait(10)
        again = [t for t in threading.enumerate() if t.name == "kafkaguard-policy"]
        assert again == threads
    finally:
        watcher.stop()
    assert not thread.is_alive()


def test_a_look_that_fails_is_logged_and_the_next_one_comes(file, caplog, monkeypatch):
    """The thread goes on after every kind of error."""
    looked = threading.Event()
    watcher = PolicyWatcher(file, interval=0.01)
    failing = iter([OSError("odd"), None])

    def look():
        error = next(failing, None)
        if error is not None:
            raise error
        looked.set()

    monkeypatch.setattr(watcher, "reload", look)
    with caplog.at_level(logging.ERROR), watcher:
        assert looked.wait(10)
    assert "the check failed, and the present policy stays in use" in caplog.text
    assert str(file) in caplog.text


def test_readers_see_the_old_policy_or_the_new_one(file):
    """Never a mixture: the pair of values is one of the two written."""
    file.write_text("max_attempts: 3\nmax_waits: 3\n")
    watcher = PolicyWatcher(file, interval=0.001)
    end = time.monotonic() + 0.5
    with watcher:
        while time.monotonic() < end:
            for n in (3, 7):
                temporary = file.with_suffix(".new")
                temporary.write_text(f"max_attempts: {n}\nmax_waits: {n}\n")
                temporary.replace(file)
                policy = watcher.policy
                assert policy.max_attempts == policy.max_waits
    assert isinstance(watcher.policy, RetryPolicy)
