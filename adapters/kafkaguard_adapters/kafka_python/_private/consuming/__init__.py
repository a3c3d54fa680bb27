"""What guarding reaches inside kafka-python's consumer (3.x)."""
