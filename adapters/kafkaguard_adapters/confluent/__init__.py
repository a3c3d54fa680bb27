"""The confluent-kafka adapter."""
