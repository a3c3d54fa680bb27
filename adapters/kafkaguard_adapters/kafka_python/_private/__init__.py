"""The only place that looks or reaches inside kafka-python (3.x)."""
