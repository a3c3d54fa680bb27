"""Record what each client does with one code of each family, answered by each API.

Run it to write ``recorded_clients.md`` anew; the test compares it with a new recording.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from importlib.metadata import version
from pathlib import Path

import kafkaguard.cli
from kafkaguard.testing import FaultProxy, KafkaCluster
from kafkaguard.testing.cluster.jars import DEFAULT_VERSION
from kafkaguard.testing.proxy.language import error_code
from tests.testing.proxy.client_scenarios import (
    CLIENTS,
    WAIT_S,
    AnsweredCodeError,
    NotSupportedError,
)
from tests.testing.proxy.raw_client import RawClient
from tests.testing.proxy.raw_requests import await_coordinator

TABLE = Path(__file__).with_name("recorded_clients.md")
#: The same for ``kafkaguard explain``.
DATA = Path(kafkaguard.cli.__file__).with_name("recorded_clients.json")
#: Measured aside: what becomes of the batch, and of the client, takes more than a word.
BESIDES = {
    ("Produce", "INVALID_RECORD"): {
        "kafka-python": "raises it for the whole batch; an idempotent producer is dead",
        "confluent-kafka": "raises it for the whole batch",
        "aiokafka": "raises UnknownError for the whole batch",
    },
    ("Produce", "MESSAGE_TOO_LARGE"): {
        "kafka-python": "raises it",
        "confluent-kafka": "raises it",
        "aiokafka": "raises it",
    },
    ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): {
        "kafka-python": "tries again",
        "confluent-kafka": "tries again",
        "aiokafka": "tries again",
    },
    ("Produce", "_MSG_TIMED_OUT"): {
        "kafka-python": "raises KafkaTimeoutError after delivery_timeout_ms",
        "confluent-kafka": "reports it after message.timeout.ms",
        "aiokafka": "raises RequestTimedOutError after request_timeout_ms",
    },
    (None, "_SSL"): {
        "kafka-python": "raises KafkaTimeoutError after bootstrap_timeout_ms",
        "confluent-kafka": "reports it to error_cb, and tries again for ever",
        "aiokafka": "raises KafkaConnectionError",
    },
}
FAMILIES = ("retriable", "refresh", "fatal", "configuration", "transaction")
_PARTITION = ("NOT_LEADER_OR_FOLLOWER", "TOPIC_AUTHORIZATION_FAILED")
_GROUP = ("NOT_COORDINATOR", "GROUP_AUTHORIZATION_FAILED")
_TXN = ("NOT_COORDINATOR", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
#: For each API the codes of the families "refresh" and "configuration".
APIS = {
    "Produce": _PARTITION,
    "Fetch": _PARTITION,
    "ListOffsets": _PARTITION,
    "OffsetCommit": _GROUP,
    "OffsetFetch": _GROUP,
    "Metadata": ("LEADER_NOT_AVAILABLE", "TOPIC_AUTHORIZATION_FAILED"),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE", "GROUP_AUTHORIZATION_FAILED"),
    "InitProducerId": _TXN,
    "EndTxn": _TXN,
    "CreateTopics": ("NOT_CONTROLLER", "TOPIC_AUTHORIZATION_FAILED"),
    "DescribeConfigs": ("LEADER_NOT_AVAILABLE", "TOPIC_AUTHORIZATION_FAILED"),
    "DescribeLogDirs": ("LEADER_NOT_AVAILABLE", "CLUSTER_AUTHORIZATION_FAILED"),
    "JoinGroup": _GROUP,
    "Heartbeat": _GROUP,
}
TIMES = 2
_PARALLEL = 8


def codes(api):
    """Return a code of each family."""
    refresh, configuration = APIS[api]
    return (
        "REQUEST_TIMED_OUT",
        refresh,
        "INVALID_REQUEST",
        configuration,
        "TRANSACTION_ABORTABLE",
    )


def record(cluster, client, api, name):
    """Let a client meet a fault, and say what it did in a few words."""
    topic = cluster.create_topic()
    with FaultProxy(cluster) as direct:
        _write(direct.bootstrap_servers, topic)
    with FaultProxy(cluster) as proxy:
        faults = []

        def arm():
            chosen = {"topic": topic} if api == "Metadata" else {}
            faults.append(proxy.on(api, **chosen).fail(name, times=TIMES))
            return lambda: faults[0].fired

        method = re.sub("(?<!^)(?=[A-Z])", "_", api).lower()
        result = _bounded(getattr(client, method), proxy.bootstrap_servers, topic, arm)
        fired = faults[0].fired if faults else 0
        if api == "Heartbeat" and result is None:
            fired = min(fired, 1)  # a heart beats again anyhow
        return _words(result, fired, error_code(name))


def _write(servers, topic):
    from kafka import KafkaProducer

    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"value").get(30)


def _bounded(scenario, *arguments):
    """Run a scenario in a thread that may be left behind; return what it raised."""
    outcome = [TimeoutError()]

    def run():
        try:
            scenario(*arguments)
            outcome[0] = None
        except BaseException as error:
            outcome[0] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(3 * WAIT_S)
    return outcome[0]


def _words(result, fired, code):
    if isinstance(result, NotSupportedError):
        return "no such call"
    if result is None:
        return {0: "does not ask", 1: "goes on"}.get(fired, "tries again")
    if isinstance(result, AnsweredCodeError):
        return "hands it over"
    if isinstance(result, (TimeoutError, FutureTimeoutError)) or _timed_out(result):
        return "times out"
    return "raises it" if _code(result) == code else f"raises {_name(result)}"


def _timed_out(error):
    return "Timeout" in type(error).__name__ and getattr(error, "errno", 0) != 7


def _code(error):
    inner = error.args[0] if error.args else None
    if hasattr(inner, "code"):
        return inner.code()
    return getattr(error, "errno", None)


def _name(error):
    inner = error.args[0] if error.args else None
    return inner.name() if hasattr(inner, "name") else type(error).__name__


def table(cluster):
    """Record everything, several at a time, and draw the table."""
    with RawClient(cluster.bootstrap_servers) as raw:
        await_coordinator(raw)
    cells = [
        (api, client, name) for api in APIS for client in CLIENTS for name in codes(api)
    ]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        found = list(
            pool.map(lambda cell: record(cluster, cell[1], cell[0], cell[2]), cells)
        )
    recorded = {
        (api, client.name, name): words
        for (api, client, name), words in zip(cells, found, strict=True)
    }
    return "".join(_lines(recorded))


def _lines(recorded):
    names = [client.name for client in CLIENTS]
    yield f"| API | answer, twice | {' | '.join(names)} |\n"
    yield "|---" * (2 + len(names)) + "|\n"
    for api in APIS:
        for family, name in zip(FAMILIES, codes(api), strict=True):
            words = " | ".join(recorded[api, client, name] for client in names)
            yield f"| {api} | {family}: `{name}` | {words} |\n"


def data_of(text):
    """Turn the table into what ``kafkaguard explain`` reads."""
    head, _, *rows = [
        [c.strip() for c in ln.split("|")[1:-1]] for ln in text.split("\n") if ln
    ]
    answers = {
        (api, answer.split("`")[1]): dict(zip(head[2:], words, strict=True))
        for api, answer, *words in rows
    }
    return {
        "source": "recorded by tests/testing/proxy/record_clients.py",
        "kafka": DEFAULT_VERSION,
        "clients": {name: version(name) for name in head[2:]},
        "answers": [
            {"api": api, "name": name, "does": does}
            for (api, name), does in {**answers, **BESIDES}.items()
        ],
    }


def main():
    """Print the table, or write it down with ``--write``."""
    logging.disable()
    with KafkaCluster(settings={"group.initial.rebalance.delay.ms": 0}) as cluster:
        text = table(cluster)
    if "--write" in sys.argv:
        TABLE.write_text(text)
        DATA.write_text(json.dumps(data_of(text), indent=1) + "\n")
    else:
        sys.stdout.write(text)
    sys.stdout.flush()
    os._exit(0)  # some clients leave threads behind when they meet a fault


if __name__ == "__main__":
    main()
