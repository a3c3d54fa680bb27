"""A liveness probe of a service that handles records, with FastAPI."""

from __future__ import annotations

import threading

from confluent_kafka import Consumer, Producer
from fastapi import FastAPI, Response
from fastapi.testclient import TestClient

from kafkaguard import guard
from kafkaguard.testing import KafkaCluster

free = threading.Event()
with KafkaCluster() as cluster:
    topic = cluster.create_topic()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, b"x")
    producer.flush()
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "probed",
        "auto.offset.reset": "earliest",
    }
    consumer = guard(factory=Consumer, config=config)
    consumer.subscribe([topic])
    app = FastAPI()

    @app.get("/live")
    def live(response: Response) -> dict[str, float]:
        """Fail if the client is not polled, or a record takes longer than a minute."""
        progress = consumer.progress()
        if progress.last_poll_age > 30 or progress.oldest_age > 60:
            response.status_code = 503
        return {"in_flight": progress.in_flight, "oldest_age": progress.oldest_age}

    stop = threading.Event()
    run = threading.Thread(
        target=consumer.process, args=[lambda _: free.wait(30)], kwargs={"stop": stop}
    )
    run.start()
    probe = TestClient(app)
    while (answer := probe.get("/live")).json()["in_flight"] == 0:
        stop.wait(0.1)
    print(answer.status_code, answer.json())
    free.set()
    stop.set()
    run.join()
    consumer.close()
    assert answer.status_code == 200
