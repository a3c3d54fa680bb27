"""The fault proxy: faults between clients and real brokers."""
