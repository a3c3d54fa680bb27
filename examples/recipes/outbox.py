"""Write to a database and to Kafka: an order is in both, or in none."""

from __future__ import annotations

import os
import sqlite3

from kafka import KafkaProducer

from kafkaguard import guard

database = sqlite3.connect("shop.db")
database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
database.execute("CREATE TABLE outbox (id INTEGER PRIMARY KEY, value BLOB)")


def order(item: str) -> None:
    """Write the order and its record in one transaction of the database."""
    with database:
        database.execute("INSERT INTO orders (item) VALUES (?)", [item])
        database.execute("INSERT INTO outbox (value) VALUES (?)", [item.encode()])


def send_outbox() -> int:
    """Send what waits, in order; what is written leaves the outbox."""
    rows = database.execute("SELECT id, value FROM outbox ORDER BY id").fetchall()
    for number, value in rows:
        producer.send("invoices", value, key=b"%d" % number)
    producer.flush()  # raises if one was not written: then all stay
    with database:
        database.executemany("DELETE FROM outbox WHERE id = ?", [r[:1] for r in rows])
    return len(rows)


client = KafkaProducer(bootstrap_servers=os.environ["KAFKA"])
with guard(client) as producer:
    order("tea")
    order("coffee")
    print(send_outbox(), "records are sent;", send_outbox(), "are left")
