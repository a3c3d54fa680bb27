"""Spark's side of the guard: a sink, a write, and what they tell the driver."""
