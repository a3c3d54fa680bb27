"""What went wrong: one class for each of the broker's error codes."""
