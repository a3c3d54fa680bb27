"""Answers of brokers, judged without a broker: sizes, copies under way, old versions."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import DescribeLogDirsResponse

from kafkaguard import errors
from kafkaguard._cluster.log_dirs import (
    LogDir,
    LogDirsReport,
    read_absence,
    read_answer,
    read_failure,
)

Result = DescribeLogDirsResponse.DescribeLogDirsResult
Topic = Result.DescribeLogDirsTopic
Partition = Topic.DescribeLogDirsPartition


def answer(version, *dirs, error_code=0):
    """Make an answer as it comes off the wire."""
    made = DescribeLogDirsResponse(error_code=error_code, results=list(dirs))
    return DescribeLogDirsResponse.decode(made.encode(version=version), version=version)


def directory(path, *partitions, error_code=0, total=-1, usable=-1):
    """Make a directory with replicas of ``t``: index, size, lag, future."""
    listed = [
        Partition(partition_index=i, partition_size=s, offset_lag=lag, is_future_key=f)
        for i, s, lag, f in partitions
    ]
    return Result(
        error_code=error_code,
        log_dir=path,
        topics=[Topic(name="t", partitions=listed)] if listed else [],
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=False,
    )


def report(version, *answers):
    """Judge an answer of each broker."""
    return LogDirsReport(
        {i: read_answer(i, version, each) for i, each in enumerate(answers)}
    )


def test_shared_storage_counts_once_and_local_copies_each():
    """Three brokers, each with 120 on its disk and the same 120 in remote storage."""
    one = answer(
        4,
        directory("/data", (0, 120, 0, False)),
        directory("remote://bucket", (0, 120, 0, False)),
    )
    found = report(4, one, one, one)
    assert 360 == found.local_size("t") == found.local_size("t", 0)
    assert found.remote_size("t") == 120
    assert 0 == found.local_size("t", 1) == found.local_size("u")


def test_future_replicas_stand_apart_and_unknown_lag_is_none():
    """A copy under way adds no size, and -1 is not shown as a lag."""
    both = directory("/a", (0, 10, -1, False), (0, 4, -1, True))
    (log_dir,) = report(1, answer(1, both)).brokers[0].dirs.values()
    (current,), (future,) = log_dir.replicas, log_dir.future_replicas
    assert (current.offset_lag, current.is_future, current.size) == (None, False, 10)
    assert (future.offset_lag, future.is_future, future.size) == (None, True, 4)
    assert log_dir.size == 10


def test_size_of_disks_and_what_is_used():
    """From version 4 on the disk's size is known; -1 there is still not a size."""
    found = report(4, answer(4, directory("/a", total=100, usable=25), directory("/b")))
    used = {path: each.used for path, each in found.brokers[0].dirs.items()}
    assert used == {"/a": 0.75, "/b": None}


def test_empty_answer_means_denied_only_below_version_3():
    """From version 3 on a broker that denies says so; there it is an answer cut short."""
    old, new = (report(v, answer(v)).brokers[0] for v in (2, 3))
    assert isinstance(old.error, errors.ClusterAuthorizationFailedError)
    assert isinstance(new.error, errors.ClientProtocolError)
    assert "no directory and no error" in str(new.error)
    assert old.is_concluded
    assert new.is_concluded


@pytest.mark.parametrize("version", range(1, 6))
def test_what_each_version_tells(version):
    """Top-level code from 3, sizes of disks from 4, cordoned from 5; None before."""
    told = answer(version, directory("/a", total=100, usable=25))
    for each in told.results:  # what a version lacks does not count, whatever is there
        each.total_bytes, each.usable_bytes, each.is_cordoned = 100, 25, False
    (found,) = read_answer(7, version, told).dirs.values()
    sizes = (100, 25) if version >= 4 else (None, None)
    assert sizes == (found.total_bytes, found.usable_bytes)
    assert (0.75 if version >= 4 else None) == found.used
    assert (False if version >= 5 else None) is found.is_cordoned
    assert (found.path, found.error) == ("/a", None)
    empty = read_answer(7, version, answer(version))
    is_old = version < 3
    cls = (
        errors.ClusterAuthorizationFailedError if is_old else errors.ClientProtocolError
    )
    assert type(empty.error) is cls
    assert (empty.broker, empty.version, empty.is_concluded) == (7, version, True)
    assert (empty.error.api, empty.error.broker) == ("DescribeLogDirs", 7)
    assert f"the answer to version {version}" in str(empty.error)
    assert is_old == (
        "the operation Describe on the resource Cluster" in str(empty.error)
    )


def test_a_code_below_version_3_is_none():
    """There is no place for it, so what stands there in memory is no answer."""
    raw = DescribeLogDirsResponse(error_code=31, results=[directory("/a")])
    assert read_answer(0, 2, raw).error is None
    denied = read_answer(0, 3, DescribeLogDirsResponse(error_code=31, results=[]))
    assert (denied.error.code, denied.error.broker, denied.is_concluded) == (
        31,
        0,
        False,
    )
    assert "the operation Describe on the resource Cluster" in str(denied.error)
    other = read_answer(0, 3, DescribeLogDirsResponse(error_code=7, results=[]))
    assert "Describe on" not in str(other.error)


def test_a_directory_that_cannot_be_read_says_so_and_keeps_its_place():
    """The others of that broker stand beside it."""
    found = read_answer(
        3, 4, answer(4, directory("/a", error_code=56), directory("/b"))
    )
    error = found.dirs["/a"].error
    assert (error.code, error.broker, error.api) == (56, 3, "DescribeLogDirs")
    assert "log directory /a" in str(error)
    assert found.dirs["/b"].error is None
    assert found.error is None


def test_silence_of_an_old_broker_may_be_a_denial():
    """Below version 3 a timeout has a note; other errors and versions have none."""
    for version, error, noted in (
        (2, errors.ClientTimeoutError(), True),
        (3, errors.ClientTimeoutError(), False),
        (None, errors.ClientTimeoutError(), False),
        (2, errors.ClientConnectionError(), False),
    ):
        found = read_failure(4, version, error)
        assert (found.broker, found.version, found.error) == (4, version, error)
        assert noted == bool(getattr(error, "__notes__", ()))
        assert not found.is_concluded


def test_a_broker_that_is_away_is_there_with_its_error():
    """Nothing was sent to it, so there is no version."""
    found = read_absence(9)
    assert (found.broker, found.version, dict(found.dirs)) == (9, None, {})
    assert type(found.error) is errors.ClientNotConnectedError
    assert (found.error.api, found.error.broker) == ("DescribeLogDirs", 9)
    assert "broker 9 is registered but fenced or down" in str(found.error)


def test_the_registry_error_counts():
    """It is not known whether these are all brokers, so it is not complete."""
    denied = errors.ClusterAuthorizationFailedError()
    found = LogDirsReport({0: read_answer(0, 4, answer(4, directory("/a")))}, denied)
    assert found.errors == [denied]
    assert not found.complete
    assert report(4, answer(4, directory("/a"))).complete


def test_sizes_are_of_the_topic_and_partition_that_is_meant():
    """On disks every copy counts; shared storage once a partition, the largest."""
    disks = directory("/a", (0, 100, 0, False), (1, 50, 0, False), (1, 7, 0, True))
    shared = directory("remote://b", (0, 30, 0, False), (1, 20, 0, False))
    larger = directory("remote://b", (0, 40, 0, False))
    found = report(4, answer(4, disks, shared), answer(4, disks, larger))
    assert [found.local_size("t", p) for p in (None, 0, 1)] == [300, 200, 100]
    assert [found.remote_size("t", p) for p in (None, 0, 1)] == [60, 40, 20]
    assert found.remote_size("u") == 0
    assert {(0, "/a"), (1, "/a")} < {(b, d.path) for b, d, _ in found.replicas()}


def test_the_used_share_needs_both_sizes():
    """A disk without a size has no share, nor has one whose free part is not told."""
    for total, usable, used in ((100, 25, 0.75), (None, 25, None), (100, None, None)):
        assert used == LogDir("/a", total_bytes=total, usable_bytes=usable).used
    assert LogDir("/a", total_bytes=0, usable_bytes=0).used is None


def test_shared_storage_counts_as_the_largest_that_a_broker_tells():
    """In whatever order they answer, and one that tells nothing changes nothing."""
    sizes = [(30, 40), (40, 30), (0, 40), (40, 0)]
    for one, other in sizes:
        dirs = (directory("remote://b", (0, size, 0, False)) for size in (one, other))
        found = report(4, *(answer(4, each) for each in dirs))
        assert found.remote_size("t") == 40


def test_top_level_code_is_that_brokers_error_and_unknown_codes_are_kept():
    """Any code, also one from the future, stays on its broker."""
    found = report(5, answer(5, error_code=31), answer(5, error_code=4711))
    assert [each.code for each in found.errors] == [31, 4711]
    assert not found.complete


def test_raise_for_errors_raises_the_gravest_and_notes_the_others():
    """What passes by itself is a note to what a human must mend."""
    found = report(
        5, answer(5, directory("/a", error_code=56)), answer(5, error_code=31)
    )
    for _ in range(2):  # asking twice adds nothing
        try:
            found.raise_for_errors()
        except errors.ClusterAuthorizationFailedError as error:
            caught = error
    assert len(caught.__notes__) == 1
    assert "log directory /a" in caught.__notes__[0]


def test_numbers_that_a_broker_cannot_tell_are_none():
    """A negative one is a marker, wherever it stands, and is in no sum."""
    odd = directory("/a", (0, -1, -7, False), total=-2, usable=-1)
    found = report(4, answer(4, odd))
    (log_dir,) = found.brokers[0].dirs.values()
    assert (log_dir.total_bytes, log_dir.usable_bytes, log_dir.used) == (None,) * 3
    assert log_dir.replicas[0].offset_lag is None
    assert (log_dir.size, found.local_size("t"), found.local_size("u")) == (
        None,
        None,
        0,
    )


def test_directory_that_is_offline_has_no_size():
    """It holds what it held; the sum over the others is none of the whole."""
    dead = directory("/dead", error_code=56)
    found = report(4, answer(4, dead, directory("/a", (0, 10, 0, False))))
    assert [each.size for each in found.brokers[0].dirs.values()] == [None, 10]
    assert (found.local_size("t"), found.remote_size("t")) == (None, None)
    (error,) = found.errors
    assert (error.code, error.verdict.action) == (56, "CONFIGURE")
