"""A FastAPI service on a guarded confluent-kafka producer.

In production: ``uvicorn --workers 4 confluent_fastapi:app``. The lifespan builds the
producer, so each worker has its own, also where workers are forked: a client of
librdkafka does not survive a fork, and the guard refuses to use one in a child.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager

import anyio
from confluent_kafka import Producer
from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

from kafkaguard import guard
from kafkaguard.errors import KafkaGuardError
from kafkaguard.testing import KafkaCluster


@asynccontextmanager
async def lifespan(app: FastAPI):
    """Start with a producer, and stop when all that was accepted is delivered."""
    config = {"bootstrap.servers": os.environ["KAFKA"], "enable.idempotence": True}
    app.state.producer = guard(factory=Producer, config=config)
    yield
    left = await anyio.to_thread.run_sync(app.state.producer.flush, 10)
    print(f"stopped with {left} records left: {app.state.producer.report()}")


app = FastAPI(lifespan=lifespan)


@app.post("/flights/{aircraft}", status_code=202)
def record(aircraft: str, request: Request) -> dict[str, str]:
    """Queue a record; 422 for one that can never succeed, 503 for one to repeat."""
    key = None if aircraft == "unknown" else aircraft.encode()
    try:
        request.app.state.producer.produce(os.environ["TOPIC"], b"1013", key)
    except KafkaGuardError as error:
        status = 422 if error.verdict.action == "REJECT" else 503
        raise HTTPException(status, error.verdict.rule.sentence) from error
    return {"status": "queued"}


if __name__ == "__main__":
    with KafkaCluster() as cluster:
        os.environ["KAFKA"] = cluster.bootstrap_servers
        os.environ["TOPIC"] = cluster.create_topic(config={"cleanup.policy": "compact"})
        with TestClient(app) as client:
            print(client.post("/flights/N14228").json())
            print(client.post("/flights/unknown").json())
