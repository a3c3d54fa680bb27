"""Kafka messages as dicts and bytes."""
