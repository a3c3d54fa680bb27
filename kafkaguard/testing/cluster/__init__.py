"""Real brokers: fetched, started, secured, stopped."""
