"""Schemas that kafka-python's engine lacks, in Kafka's notation."""
