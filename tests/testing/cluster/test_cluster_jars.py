"""Jars: fetched once, whole, or taken from a folder."""

from __future__ import annotations

import socket
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from kafkaguard.testing import JarsNotFoundError, KafkaCluster
from kafkaguard.testing.cluster import jars
from kafkaguard.testing.cluster.jars import kafka_jars, tiered_jars

pytestmark = [pytest.mark.xdist_group("jars"), pytest.mark.java]


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    """Start as on a machine that never fetched anything."""
    cache = tmp_path / "cache"
    monkeypatch.delenv("KAFKAGUARD_KAFKA_JARS", raising=False)
    monkeypatch.setenv("KAFKAGUARD_CACHE", str(cache))
    return cache


@pytest.fixture
def fetched(monkeypatch):
    """Replace the fetching by one that makes two small jars, and count."""
    calls = []

    def fetch(artifacts, folder, *, alone):
        calls.append(artifacts)
        for artifact in artifacts:
            make_jar(folder / artifact.file_name)

    monkeypatch.setattr("kafkaguard.testing.cluster.jars.fetch", fetch)
    return calls


def make_jar(path):
    """Write a jar with one entry."""
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("entry", "content")


def test_the_jars_are_fetched_for_real(empty_cache, monkeypatch, tmp_path, capsys):
    """Without Java and without Maven an empty cache is filled with a whole broker."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = kafka_jars("4.3.1")
    names = {jar.name for jar in folder.glob("*.jar")}
    assert folder == empty_cache / "kafka-4.3.1"
    assert {"kafka_2.13-4.3.1.jar", "kafka-clients-4.3.1.jar"} < names
    assert {"kafka-metadata-4.3.1.jar", "kafka-storage-4.3.1.jar"} < names
    assert "fetching org.apache.kafka:kafka_2.13:4.3.1" in capsys.readouterr().err
    (tiered,) = tiered_jars("4.3.1").glob("*.jar")
    assert tiered.name == "kafka-storage-4.3.1-test.jar"


def test_they_are_fetched_once(empty_cache, fetched):
    """The second time nothing is fetched, and nothing but the jars is left."""
    first = kafka_jars()
    assert first == kafka_jars()
    assert len(fetched) == 1
    assert not list(empty_cache.glob("fetch-*"))


def test_a_damaged_cache_is_fetched_again(empty_cache, fetched):
    """A jar that lost its end, or is gone, is noticed."""
    jar = kafka_jars() / "kafka-clients-4.3.1.jar"
    make_jar(jar)
    assert not jar.unlink()
    (kafka_jars() / "kafka_2.13-4.3.1.jar").write_bytes(b"half")
    kafka_jars()
    assert len(fetched) == 2


def test_two_processes_fetch_once(empty_cache, tmp_path):
    """The one that comes second waits, and finds the work done."""
    script = tmp_path / "fetch.py"
    script.write_text(
        "import sys, time, zipfile\n"
        "from kafkaguard.testing.cluster import jars\n"
        "def fetch(artifacts, folder, *, alone):\n"
        "    print('fetching', flush=True)\n"
        "    sys.stdin.readline()\n"
        "    for artifact in artifacts:\n"
        "        with zipfile.ZipFile(folder / artifact.file_name, 'w') as jar:\n"
        "            jar.writestr('entry', 'content')\n"
        "jars.fetch = fetch\n"
        "print(jars.kafka_jars(), flush=True)\n"
    )
    with run(script) as first, run(script) as second:
        for process in (first, second):
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate(timeout=60)[0] for process in (first, second)]
    found = f"{empty_cache / 'kafka-4.3.1'}\n"
    assert sorted(said) == [found, f"fetching\n{found}"]


def run(script):
    """Start a Python process that can be talked to."""
    return subprocess.Popen(
        [sys.executable, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_failed_fetch_leaves_nothing_that_looks_whole(empty_cache, monkeypatch):
    """What came damaged is named, and not kept."""

    def fetch(artifacts, folder, *, alone):
        (folder / artifacts[0].file_name).write_bytes(b"half a jar")
        make_jar(folder / artifacts[1].file_name)

    monkeypatch.setattr("kafkaguard.testing.cluster.jars.fetch", fetch)
    with pytest.raises(JarsNotFoundError, match=r"damaged.*kafka_2.13-4.3.1.jar"):
        kafka_jars()
    assert [left.name for left in empty_cache.iterdir()] == ["fetch.lock"]


def test_a_cache_that_cannot_be_written_is_named(empty_cache, fetched):
    """The error for a read-only cache proposes KAFKAGUARD_CACHE."""
    empty_cache.touch()
    message = f"cannot keep jars in {empty_cache} .*Set KAFKAGUARD_CACHE"
    with pytest.raises(JarsNotFoundError, match=message):
        kafka_jars()


def test_a_version_that_there_is_not_is_named(empty_cache):
    """The error says what is not there, and the ways out."""
    message = r"kafka_2\.13:9\.9\.9.*not found.*KAFKAGUARD_KAFKA_JARS"
    with pytest.raises(JarsNotFoundError, match=message):
        kafka_jars("9.9.9")
    assert [left.name for left in empty_cache.iterdir()] == ["fetch.lock"]


def test_a_mirror_is_asked_in_place_of_maven_central(empty_cache, monkeypatch):
    """Its address is in the error where it does not answer."""
    monkeypatch.setenv("KAFKAGUARD_MAVEN_REPOSITORY", "http://127.0.0.1:1/mirror")
    with pytest.raises(JarsNotFoundError, match=r"127\.0\.0\.1.*port=1.*refused"):
        kafka_jars()


@pytest.fixture
def repository(empty_cache, monkeypatch):
    """Start a mirror that answers as a function says: bytes, or None for nothing."""

    @contextmanager
    def start(answer):
        class Repository(BaseHTTPRequestHandler):
            def do_GET(self):
                if (body := answer(self.path)) is not None:
                    self.send_response(200 if body else 404)
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Repository) as server:
            Thread(target=server.serve_forever).start()
            address = f"http://127.0.0.1:{server.server_port}"
            monkeypatch.setenv("KAFKAGUARD_MAVEN_REPOSITORY", address)
            yield address
            server.shutdown()

    return start


def test_a_connection_that_breaks_costs_an_attempt(repository):
    """The next one is answered: there is no such jar."""
    paths = []

    def breaks_once(path):
        paths.append(path)
        return b"" if len(paths) > 1 else None

    with (
        repository(breaks_once) as address,
        pytest.raises(JarsNotFoundError, match=f"not found in .*{address}"),
    ):
        kafka_jars()
    assert paths[0] == paths[1]


def test_a_jar_that_is_not_the_one_is_refused(repository, empty_cache):
    """A jar with a wrong checksum is refused."""

    def another(path):
        return b"0" * 40 if path.endswith(".sha1") else b"a jar"

    message = r"Checksum mismatch for kafka-storage-4\.3\.1-test\.jar"
    with repository(another), pytest.raises(JarsNotFoundError, match=message):
        tiered_jars("4.3.1")
    assert [left.name for left in empty_cache.iterdir()] == ["fetch.lock"]


def test_a_fetch_that_takes_too_long_is_given_up(empty_cache, monkeypatch):
    """The caller is told, though the repository never answers."""
    monkeypatch.setattr(jars, "_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("KAFKAGUARD_MAVEN_REPOSITORY", address)
        with pytest.raises(JarsNotFoundError, match=r"not done in 0\.1 s"):
            kafka_jars()


def test_without_its_package_the_extra_is_named(empty_cache, monkeypatch):
    """One sentence says what to install, and the ways around it."""
    monkeypatch.setitem(sys.modules, "jgo", None)
    message = r"\(jgo\): pip install 'kafkaguard\[testing\]'.*KAFKAGUARD_KAFKA_JARS"
    with pytest.raises(JarsNotFoundError, match=message):
        kafka_jars()


@pytest.mark.parametrize("version", ["4.x", "latest", "4.3", ""])
def test_a_bad_version_is_refused(version):
    """A malformed version is refused before anything is looked up."""
    with pytest.raises(JarsNotFoundError, match="is not a Kafka version"):
        kafka_jars(version)


def test_tiered_storage_needs_its_jar(monkeypatch, tmp_path):
    """A folder without it serves plain clusters only."""
    make_jar(tmp_path / "kafka_2.13-4.4.0.jar")
    make_jar(tmp_path / "kafka-clients-4.4.0.jar")
    monkeypatch.setenv("KAFKAGUARD_KAFKA_JARS", str(tmp_path))
    with pytest.raises(JarsNotFoundError, match=r"lacks kafka-storage-4\.4\.0-test"):
        KafkaCluster(version="4.4.0", tiered=True).start()


def test_a_given_folder_is_taken_as_it_is(monkeypatch, tmp_path):
    """The folder itself, or its sub-folder of the version."""
    monkeypatch.setenv("KAFKAGUARD_KAFKA_JARS", str(tmp_path))
    with pytest.raises(
        JarsNotFoundError, match=f"{tmp_path} lacks kafka_2.13-4.3.1.jar"
    ):
        kafka_jars()
    for folder in (tmp_path, tmp_path / "4.3.1"):
        folder.mkdir(exist_ok=True)
        make_jar(folder / "kafka_2.13-4.3.1.jar")
        make_jar(folder / "kafka-clients-4.3.1.jar")
        assert folder == kafka_jars()


def test_the_cache_follows_the_users_settings(monkeypatch, fetched, tmp_path):
    """The cache is below XDG_CACHE_HOME if that is set."""
    monkeypatch.delenv("KAFKAGUARD_KAFKA_JARS", raising=False)
    monkeypatch.delenv("KAFKAGUARD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kafka_jars() == tmp_path / "kafkaguard" / "kafka-4.3.1"
