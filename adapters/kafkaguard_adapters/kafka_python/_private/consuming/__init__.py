"""Private attributes of kafka-python's consumer (3.x)."""
