"""Pipeline files: read, check, run."""
