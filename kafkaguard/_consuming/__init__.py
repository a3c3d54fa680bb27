"""The state machine of guarded consumers: reads, waits, resets, commits."""
