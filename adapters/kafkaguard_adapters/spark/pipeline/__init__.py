"""Pipeline files: read, checked and run."""
