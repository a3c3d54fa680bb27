"""Calls under a policy."""
