"""The machine of consumers that handle records, without I/O."""
