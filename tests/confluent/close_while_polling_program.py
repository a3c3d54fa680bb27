"""Close guarded consumers while another thread polls; then let them be collected."""

from __future__ import annotations

import gc
import sys
import threading
import time

from confluent_kafka import Consumer

from kafkaguard import errors, guard

raised = []


def poll(consumer):
    """Poll until the consumer says that it is closed."""
    while True:
        try:
            consumer.poll(0.05)
        except errors.KafkaGuardError as error:
            raised.append(error)
            return


for number in range(5):
    consumer = guard(
        factory=Consumer,
        config={
            "bootstrap.servers": sys.argv[1],
            "group.id": f"closed-while-polling-{number}",
        },
    )
    consumer.subscribe(["closed-while-polling"])
    thread = threading.Thread(target=poll, args=[consumer])
    thread.start()
    time.sleep(0.3)
    consumer.close()
    thread.join(20)
    del consumer, thread
    gc.collect()
print(f"closed {len(raised)} times")
