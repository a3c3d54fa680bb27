"""Send from the children of a process that had a producer before the fork."""

from __future__ import annotations

import os

from kafka import KafkaProducer

from kafkaguard import guard

config = {"bootstrap_servers": os.environ["KAFKA"]}
producer = guard(factory=KafkaProducer, config=config)  # as a preloaded application
producer.send("clicks", b"of the parent").get(10)

children = []
for worker in range(2):
    child = os.fork()
    if child == 0:  # as a worker of gunicorn or uWSGI
        producer.send("clicks", b"of worker %d" % worker).get(10)
        producer.close()
        os._exit(0)
    children.append(child)

for child in children:
    _, status = os.waitpid(child, 0)
    print("a worker ended with", os.waitstatus_to_exitcode(status))
producer.send("clicks", b"of the parent again").get(10)
producer.close()
