"""A cluster that one was just given: who lags, what is full, and every wrong turn."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import time

import confluent_kafka.admin
import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from kafkaguard.testing import KafkaCluster

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("lag-newcomers")]


PASSWORD = secrets.token_urlsafe()
#: Less than the 30 s that a report may take.
LIMIT_S = 28


def kafkaguard(*args):
    """Run the command as a person would; return its code, output and complaints."""
    started = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "kafkaguard", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=100,
        env={k: v for k, v in os.environ.items() if k != "KAFKAGUARD_BOOTSTRAP_SERVER"},
    )
    assert time.monotonic() - started < LIMIT_S
    said = ran.stdout + ran.stderr
    assert "Traceback" not in said
    assert PASSWORD not in said
    return ran.returncode, ran.stdout, ran.stderr


def commit(bootstrap, group, offsets):
    """Commit offsets, as soon as there is a coordinator."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
    )
    places = {TopicPartition(*place): at for place, at in offsets.items()}
    consumer.assign(places)
    consumer.commit({p: OffsetAndMetadata(at, "", -1) for p, at in places.items()})
    consumer.close()


@pytest.fixture(scope="module")
def given():
    """Three brokers with users and TLS, and two groups of which one is behind."""
    with KafkaCluster(
        brokers=3,
        users={"alice": PASSWORD, "bob": PASSWORD},
        super_users=["alice"],
        tls=True,
    ) as cluster:
        topic = cluster.create_topic(partitions=6)
        bootstrap = cluster.bootstrap_servers
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
        for number in range(60):
            producer.produce(topic, b"x", partition=number % 6)
        assert producer.flush(30) == 0
        commit(bootstrap, "billing", {(topic, n): n for n in range(6)})
        commit(bootstrap, "audit", {(topic, n): 10 for n in range(6)})
        yield cluster, topic


@pytest.fixture
def written(given, tmp_path):
    """Write a file of settings for a listener, with changes."""
    cluster, _ = given

    def write(listener, user=None, **changes):
        config = cluster.client_config(listener, client="confluent", user=user)
        config |= {name.replace("_", "."): value for name, value in changes.items()}
        path = tmp_path / "client.properties"
        lines = [f"{k}={v}\n" for k, v in config.items() if v is not None]
        path.write_text("".join(lines))
        return "--config", path

    return write


def test_with_rights_one_sees_who_lags_and_what_is_full(written):
    """With all rights, lag and log-dirs print names and numbers and exit with 0."""
    alice = written("SASL_PLAIN", "alice")
    code, shown, _ = kafkaguard("lag", *alice)
    assert code == 0
    assert re.search(r"billing\W+45\b", shown), shown
    assert kafkaguard("lag", *alice, "--max", 44)[0] == 3
    assert kafkaguard("lag", *alice, "--max", 45)[0] == 0
    code, shown, _ = kafkaguard("log-dirs", *alice)
    assert code == 0
    assert shown.count("/data-") == 3
    assert kafkaguard("log-dirs", *alice, "--full", 0)[0] == 3


def test_without_rights_one_is_told_which_are_missing(written):
    """No table of nothing passes for an answer."""
    bob = written("SASL_PLAIN", "bob")
    code, _, said = kafkaguard("lag", *bob)
    assert (code, "may not see it (the operation Describe)" in said) == (1, True)
    code, _, said = kafkaguard("lag", *bob, "--max", 10)
    assert (code, "no lag was measured" in said) == (1, True)
    code, shown, _ = kafkaguard("lag", *bob, "--max", 10, "--json")
    remarks = json.loads(shown)["remarks"]
    assert (code, ["no lag was measured" in text for text in remarks]) == (
        1,
        [False, True],
    )
    code, _, said = kafkaguard("lag", "billing", *bob)
    assert code == 1
    assert "GROUP_AUTHORIZATION_FAILED (30)" in said
    code, _, said = kafkaguard("log-dirs", *bob)
    assert code == 1
    assert said.count("operation Describe on the resource Cluster") == 3


WRONG_SETTINGS = {
    "password": ("SASL_PLAIN", "alice", {"sasl_password": "wrong"}, "(58)"),
    "mechanism": (
        "SASL_PLAIN",
        "alice",
        {"sasl_mechanism": "SCRAM-SHA-999"},
        "offers PLAIN",
    ),
    "no SASL": (
        "SASL_PLAIN",
        "alice",
        {"security_protocol": "PLAINTEXT"},
        "requires SASL",
    ),
    "TLS on plaintext": (
        "PLAINTEXT",
        None,
        {"security_protocol": "SSL"},
        "security protocol of this port",
    ),
    "plaintext on TLS": (
        "TLS",
        None,
        {"security_protocol": "PLAINTEXT"},
        "TLS (an alert)",
    ),
    "no such authority": (
        "TLS",
        None,
        {"ssl_ca_location": "/nowhere/ca.pem"},
        "/nowhere/ca.pem",
    ),
    "other authority": (
        "TLS",
        None,
        {"ssl_ca_location": None},
        "unable to get local issuer",
    ),
    "keystore": ("TLS", None, {"ssl_keystore_location": "k.jks"}, "keystore.location"),
}


@pytest.mark.parametrize("command", ["lag", "log-dirs"])
@pytest.mark.parametrize("what", WRONG_SETTINGS)
def test_wrong_settings_are_one_line_that_says_what_to_look_at(written, command, what):
    """Code 2, one message, in time, without a credential."""
    listener, user, changes, expected = WRONG_SETTINGS[what]
    file = written(listener, user, **changes)
    code, shown, said = kafkaguard(command, *file, "--timeout", 10)
    assert (code, shown) == (2, "")
    assert expected in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("-b", "nosuchhost.invalid:9092"), "nosuchhost.invalid:9092"),
        (("-b", "127.0.0.1:1"), "127.0.0.1:1 cannot be reached"),
        (("-b", "localhost:99999"), "a port up to 65535"),
        (("-b", "localhost:port"), "write it as host:port"),
        (("-b", "::::"), "write it as host:port"),
        (("-b", ","), "name at least one"),
        ((), "no cluster is named"),
        (("--config", "nosuch.properties"), "does not exist"),
        *(
            (("-b", "localhost:1", "--timeout", given), "'--timeout': ")
            for given in ("0", "-1", "inf", "nan", "soon")
        ),
    ],
)
@pytest.mark.parametrize("command", ["lag", "log-dirs"])
def test_wrong_addresses_are_told_apart(command, args, expected):
    """A host, a port, a file and a number each have their own message."""
    code, _, said = kafkaguard(command, *args)
    assert code == 2
    assert expected in said


@pytest.mark.parametrize(
    "args",
    [
        *(("lag", "--interval", given) for given in ("-1", "nan", "inf")),
        *(("lag", "--max", given) for given in ("-1", "1.5", "nan")),
        *(("lag", "--watch", "--looks", given) for given in ("0", "-1", "nan")),
        *(("log-dirs", "--full", given) for given in ("-1", "101", "nan", "inf")),
        ("log-dirs", "--broker", "-1"),
    ],
)
def test_numbers_that_bound_nothing_are_refused(args):
    """Code 2, and which numbers there may be."""
    code, shown, said = kafkaguard(*args, "-b", "localhost:1")
    assert (code, shown) == (2, "")
    refusal = r"is not (in the range .*x|a number|a valid integer)"
    assert re.search(rf"{args[-2]}.*{re.escape(args[-1])}.* {refusal}", said)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sasl.pasword", "sasl.password"),
        ("ssl.ca.locaton", "ssl.ca.location"),
        ("securty.protocol", "security.protocol"),
    ],
)
def test_misspelt_setting_is_named_with_its_line(tmp_path, name, meant):
    """The file, the line, and what was meant."""
    path = tmp_path / "client.properties"
    path.write_text(f"bootstrap.servers=localhost:1\n{name}={PASSWORD}\n")
    code, _, said = kafkaguard("lag", "--config", path)
    assert code == 2
    assert f"{path}, line 2: " in said
    assert f"did you mean {meant!r}" in said
    assert "config=" not in said


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"security.protocol\n", "line 1"), (bytes(range(256)), "not a text file")],
)
def test_file_that_is_none_of_settings_is_named(tmp_path, content, expected):
    """A line without a value, and something that is no text."""
    path = tmp_path / "client.properties"
    path.write_bytes(content)
    code, _, said = kafkaguard("lag", "--config", path)
    assert code == 2
    assert str(path) in said
    assert expected in said


def test_names_that_are_not_there_are_not_taken_for_zero(given):
    """A misspelt group or topic is code 1 and a line, not a lag of 0."""
    cluster, _ = given
    where = ("-b", cluster.bootstrap_servers)
    code, _, said = kafkaguard("lag", "biling", "--max", 5, *where)
    assert (code, "no group biling" in said) == (1, True)
    for command, text in (
        (("lag", "billing"), "there is no topic nosuch"),
        (("log-dirs",), "topic nosuch: there is none"),
    ):
        code, _, said = kafkaguard(*command, "--topic", "nosuch", *where)
        assert (code, text in said) == (1, True)
    code, _, said = kafkaguard("log-dirs", "--broker", 77, *where)
    assert (code, "no broker 77; it has 0, 1, 2" in said) == (1, True)
    assert kafkaguard("lag", "--looks", 2, *where)[0] == 2


def coordinator(cluster, group):
    """Return the number of the broker that coordinates a group."""
    admin = confluent_kafka.admin.AdminClient(
        {"bootstrap.servers": cluster.bootstrap_servers}
    )
    described = admin.describe_consumer_groups([group])[group].result(30)
    return described.coordinator.id


def test_paused_and_killed_brokers_hide_no_other(given):
    """What the living know is shown in time, and each failure once."""
    cluster, _ = given
    where = ("-b", cluster.bootstrap_servers, "--timeout", 4)
    number = (coordinator(cluster, "billing") + 1) % 3
    silent = cluster.brokers[number]
    silent.pause()
    try:
        code, shown, said = kafkaguard("log-dirs", *where)
        assert (code, shown.count("/data-")) == (1, 2), said
        # The broker is silent, or it is fenced by then.
        assert f"[DescribeLogDirs, broker {number}]" in said
        _, shown, said = kafkaguard("lag", *where)
        assert "billing" in shown, said
    finally:
        silent.resume()
    silent.kill()
    brokers = [word for node in range(3) for word in ("--broker", node)]
    code, shown, said = kafkaguard("log-dirs", *where, *brokers)
    assert (code, shown.count("/data-")) == (1, 2)
    assert len(said.strip().splitlines()) == 1
    assert f"broker {number}" in said
    silent.start()
