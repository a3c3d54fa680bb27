"""One line in front of a KafkaProducer: null keys, batch-mates, and a report."""

from __future__ import annotations

from kafka import KafkaProducer
from kafka.errors import InvalidRecordError

from kafkaguard import TopicFacts, guard
from kafkaguard.testing import KafkaCluster

with KafkaCluster() as cluster:
    last_flights = cluster.create_topic(config={"cleanup.policy": "compact"})
    servers = cluster.bootstrap_servers

    # A record without a key is refused by the call itself, before anything is sent.
    with guard(KafkaProducer(bootstrap_servers=servers)) as producer:
        producer.send(last_flights, b"1013", key=b"N14228")
        try:
            producer.send(last_flights, b"2020")
        except InvalidRecordError as error:  # kafka-python's class, as before
            print(f"refused: {error.verdict.rule.sentence}")
        print(producer.flush())

    # Where the guard did not know better, the broker refuses the whole batch, and
    # kafka-python's producer is dead. The guard builds a new one and sends the records
    # again that were refused for their neighbour's sake.
    wrong = {last_flights: TopicFacts(compacted=False)}
    client = KafkaProducer(bootstrap_servers=servers, linger_ms=100)
    with guard(client, topics=wrong) as producer:
        kept = producer.send(last_flights, b"1124", key=b"N14228")
        refused = producer.send(last_flights, b"2021")
        print(f"kept at offset {kept.get(10).offset}")
        print(f"refused: {refused.exception.verdict.action}")
        print(producer.flush())
