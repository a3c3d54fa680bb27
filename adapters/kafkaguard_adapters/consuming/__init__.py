"""Shared parts of guarded consumers: the shell protocol and the driver."""
