"""The only package that uses private attributes of kafka-python (3.x)."""
