"""The delivery state machine: the outcome of each record that is sent."""
