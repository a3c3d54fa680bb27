"""``python -m tests.doctor``: inject each fault, and print what the doctor finds.

``--large`` also looks at 1,000 topics with 10 partitions each, and 200 groups: it must
end in 20 seconds, and with as many requests as for one topic and one group.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from kafkaguard._doctor import settings as doctor_settings
from kafkaguard.cluster import diagnose
from kafkaguard.testing import FaultProxy, KafkaCluster
from tests.contracts.producer import until
from tests.doctor.faults import (
    DISKS,
    FAULTS,
    GUARDED,
    GUARDED_CLUSTER,
    THREE,
    examine,
    execute,
    two_disks,
)

#: The longest that brokers take until they lead what was just made.
SETTLE_S = 120.0
#: Topics that are made in one request.
AT_ONCE = 100
TOPICS, PARTITIONS, GROUPS, LIMIT_S = 1000, 10, 200, 20.0


def try_faults(cluster, faults, table):
    """Inject faults one after the other; return how many were not found."""
    missed = 0
    for number, fault in enumerate(faults):
        name = f"fault-{len(faults)}-{number}"
        with fault.inject(cluster, name) as more:
            found = examine(fault, cluster, name, more)
            is_found = {each.severity for each in found} == {fault.severity}
            remedy = "in words"
            if commands := {each.command for each in found} - {None}:
                for command in commands:
                    execute(command)
                is_mended = not examine(fault, cluster, name, more)
                remedy = "command, mends it" if is_mended else "command, FAILS"
                missed += not is_mended
            missed += not is_found
            word = fault.severity if is_found else "MISSED"
            table.add_row(fault.name, fault.check, word, remedy)
    return missed


def measure(proxy):
    """Return the seconds and requests of a diagnosis, once brokers lead all partitions."""
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end:
        proxy.journal.clear()
        start = time.monotonic()
        diagnose({"bootstrap.servers": proxy.bootstrap_servers})
        seconds = time.monotonic() - start
        if not any(each.errors for each in proxy.requests("ListOffsets")):
            return seconds, proxy.journal.counts().requests.total()
    sys.exit(f"the broker does not lead all partitions after {SETTLE_S:g} s")


def is_committed(consumer, place):
    """Commit a place; return whether the broker knows its topic already."""
    try:
        consumer.commit(offsets=[place], asynchronous=False)
    except KafkaException:
        return False
    return True


def try_large():
    """Measure seconds and requests for many topics and groups."""
    with KafkaCluster() as cluster, FaultProxy(cluster) as proxy:
        counts = []
        for topics, groups in ((1, 1), (TOPICS, GROUPS)):
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
            names = [f"large-{topics}-{number}" for number in range(topics)]
            for first in range(0, topics, AT_ONCE):
                some = names[first : first + AT_ONCE]
                made = admin.create_topics([NewTopic(n, PARTITIONS, 1) for n in some])
                for each in made.values():
                    each.result(120)
            for number in range(groups):
                consumer = Consumer(
                    {
                        "bootstrap.servers": cluster.bootstrap_servers,
                        "group.id": f"group-{topics}-{number}",
                    }
                )
                place = TopicPartition(f"large-{topics}-{number}", 0, 0)
                until(partial(is_committed, consumer, place), SETTLE_S)
                consumer.close()
            counts.append(measure(proxy))
    (_, few), (seconds, many) = counts
    print(
        f"{TOPICS:,} topics, {GROUPS} groups: {seconds:.1f} s, {many} requests; "
        f"1 topic, 1 group: {few} requests"
    )
    return int(seconds > LIMIT_S or many > few)


def main():
    """Run all."""
    parser = argparse.ArgumentParser(prog="python -m tests.doctor")
    parser.add_argument("--large", action="store_true")
    chosen = parser.parse_args()
    doctor_settings.OLD_S = 0.0
    table = Table("Fault", "Check", "Found as", "Remedy")
    with KafkaCluster() as cluster:
        wrong = try_faults(cluster, FAULTS, table)
    with KafkaCluster(brokers=3) as cluster:
        wrong += try_faults(cluster, THREE, table)
    with KafkaCluster(**GUARDED_CLUSTER) as cluster:
        wrong += try_faults(cluster, GUARDED, table)
    with TemporaryDirectory() as folder, two_disks(Path(folder)) as cluster:
        wrong += try_faults(cluster, DISKS, table)
    Console(width=120).print(table)
    print(f"{len([*FAULTS, *THREE, *GUARDED, *DISKS])} faults, {wrong} wrong")
    if chosen.large:
        wrong += try_large()
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
