"""Archives of loaded classes: recorded once, and never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaguard.testing import StartError
from kafkaguard.testing.cluster.archive import with_archive
from kafkaguard.testing.cluster.java import Runtime

pytestmark = pytest.mark.java


RECORD = "-XX:ArchiveClassesAtExit="


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """Start with an empty cache."""
    monkeypatch.setenv("KAFKAGUARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def runtime(tmp_path):
    """Pretend to have a Java and jars."""
    java, jars, more = tmp_path / "java", tmp_path / "jars", tmp_path / "more"
    java.touch()
    jars.mkdir()
    return Runtime(java, (jars, more))


class Recorder:
    """Play a run of a broker; Java writes the archive when it can."""

    def __init__(self, content):
        self.content = content
        self.runs = []

    def __call__(self, runtime):
        """Write the archive that the options name."""
        self.runs.append(runtime)
        if self.content is not None:
            (option,) = runtime.options
            Path(option.removeprefix(RECORD)).write_bytes(self.content)


def test_the_first_use_records(cache, runtime):
    """The second finds what the first wrote, and plain jars were recorded."""
    record = Recorder(b"classes")
    first, second = (with_archive(runtime, record) for _ in range(2))
    (archive,) = cache.glob("*.jsa")
    assert first == second
    assert first.options == (f"-XX:SharedArchiveFile={archive}",)
    assert archive.read_bytes() == b"classes"
    assert [run.jars for run in record.runs] == [runtime.jars[:1]]


def test_other_jars_have_another_archive(cache, runtime, tmp_path):
    """What was recorded for one version is not used for another."""
    record = Recorder(b"classes")
    (tmp_path / "other").mkdir()
    with_archive(runtime, record)
    with_archive(Runtime(runtime.java, (tmp_path / "other",)), record)
    assert len(record.runs) == 2


def test_a_java_that_cannot_record_is_asked_once(cache, runtime):
    """Without an archive the runtime stays as it is."""
    record = Recorder(None)
    assert with_archive(runtime, record) == with_archive(runtime, record) == runtime
    assert len(record.runs) == 1


def test_no_place_to_record_is_said(cache, runtime, capsys):
    """A cache that cannot be written costs time, not the start."""
    cache.touch()
    assert with_archive(runtime, Recorder(b"classes")) == runtime
    assert "will start slowly" in capsys.readouterr().err


def test_a_recording_that_fails_is_said(cache, runtime, capsys):
    """So does a broker that does not end in order."""

    def fail(runtime):
        raise StartError("did not stop")

    assert with_archive(runtime, fail) == runtime
    assert "did not stop" in capsys.readouterr().err
