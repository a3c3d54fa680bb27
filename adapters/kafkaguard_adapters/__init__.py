"""Where kafkaguard meets the world: one folder a client, and Spark."""
