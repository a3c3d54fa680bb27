"""What guarding costs, measured. ``python -m benchmarks [NAME ...]``."""
