"""A replay that is killed again and again, while brokers die: is each letter sent once?

``python -m tests.replay.kills --kills 100 --seed 1`` runs three brokers and a replay of
20,000 letters in three forms: all letters, a selection, and a ``fix`` that leaves a
tenth. It exits with 1 where a record is missing or is there twice.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from random import Random

from confluent_kafka import Consumer, Producer, TopicPartition

from kafkaguard._delivery.dialects import LetterFacts, write_headers
from kafkaguard.testing import KafkaCluster

LETTERS, PARTITIONS, KEYS = 20_000, 3, 100
TOPIC = {"min.insync.replicas": 2}
#: Words of the command, and which letters it sends.
FORMS = {
    "all": ([], lambda _: True),
    "reason": (["--reason", "A"], lambda number: number % 2 == 0),
    "fix": (["--fix", "tests.replay.kills:leave_tenth"], lambda number: number % 10),
}
#: Letters a second of a replay that will be killed, so that many kills meet it.
RATE = 60
#: Share of the kills that come before the first letter is sent.
EARLY = 0.2


#: How often a replay ended by itself, by its exit code.
ENDED = Counter()


def leave_tenth(letter):
    """Leave each tenth letter."""
    if int(letter.value) % 10 == 0:
        raise ValueError(letter.value)
    return letter


def write(servers, topic, letters):
    """Write the letters; those of a key are from one partition, in its order."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all"})
    for number in range(LETTERS):
        reason = "A" if number % 2 == 0 else "B"
        key = number % KEYS
        facts = LetterFacts(
            reason, topic=topic, partition=key % PARTITIONS, offset=number
        )
        producer.produce(
            letters,
            b"%d" % number,
            b"k%d" % key,
            partition=key % PARTITIONS,
            headers=write_headers(facts, "own"),
        )
        producer.poll(0)
    assert producer.flush(60) == 0


def read(servers, topic):
    """Count what readers of committed records see, by number."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "count",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
    found, ended = Counter(), set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(1000, 1.0):
            if message.error():
                ended.add(message.partition())
            else:
                found[int(message.value())] += 1
    consumer.close()
    return found


def wait_for_letters(process):
    """Wait until a replay has sent letters, or has ended; show why it did."""
    lines = []
    for line in process.stderr:
        if " letters" in line:
            return
        lines.append(line)
    print(f"ended by itself with {process.wait()}: {''.join(lines[-3:])}", flush=True)
    ENDED[process.returncode] += 1


def replay(cluster, letters, words, random, kills):
    """Start a replay again until it ends; kill it so often before."""
    command = [sys.executable, "-m", "kafkaguard", "replay", "--yes", letters]
    command += ["-b", cluster.bootstrap_servers, *words]
    for number in range(kills):
        with subprocess.Popen(
            [*command, "--rate", str(RATE)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            if random.random() > EARLY:
                wait_for_letters(process)
            time.sleep(random.uniform(0.0, 2.0))
            if number % 10 == 9:
                broker = cluster.broker(random.randrange(3))
                broker.kill()
                time.sleep(random.uniform(0.0, 2.0))
                broker.start()
            process.kill()
        print(f"killed {number + 1} of {kills}", flush=True)
    done = subprocess.run(command, capture_output=True, timeout=600, check=False)
    return done.returncode


def main():
    """Run all forms, and compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay.kills")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--form", choices=FORMS, action="append")
    chosen = parser.parse_args()
    random, bad = Random(chosen.seed), 0
    with KafkaCluster(brokers=3) as cluster:
        for form in chosen.form or FORMS:
            words, is_sent = FORMS[form]
            topic, letters = (
                cluster.create_topic(f"{form}{end}", PARTITIONS, config=TOPIC)
                for end in ("", ".dlq")
            )
            servers = cluster.bootstrap_servers
            write(servers, topic, letters)
            code = replay(cluster, letters, words, random, chosen.kills)
            found = read(servers, topic)
            wanted = {number for number in range(LETTERS) if is_sent(number)}
            missing = len(wanted - found.keys())
            twice = sum(count > 1 for count in found.values())
            more = len(found.keys() - wanted)
            print(
                f"{form}: exit code {code}, {len(found):,} of {len(wanted):,} records, "
                f"missing {missing}, twice {twice}, not wanted {more}"
            )
            bad += missing + twice + more
    print(f"ended before they were killed, by exit code: {dict(ENDED)}")
    print("every letter once" if not bad else f"{bad} wrong")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
