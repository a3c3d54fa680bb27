"""Benchmarks of what guarding costs: ``python -m benchmarks [NAME ...]``."""
