"""The demo: real flights into a real Kafka."""
