"""Exactly once: the transactions of shards, and what they are settled by."""
