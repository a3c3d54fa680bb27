"""A simulated world around the delivery machine: clients, a broker, a clock, faults."""
