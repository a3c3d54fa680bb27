"""What becomes of polling, of partitions that cannot be read, and of commits."""
