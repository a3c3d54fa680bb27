"""What runs in Spark's driver."""
