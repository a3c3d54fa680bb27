"""Real brokers and real faults, for your tests and ours."""
