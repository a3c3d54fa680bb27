"""Test clusters of real brokers."""
