"""Schemas of messages that kafka-python's engine lacks, in Kafka's own notation."""
