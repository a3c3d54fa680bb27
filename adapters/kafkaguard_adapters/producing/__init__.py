"""Shared parts of guarded producers: drivers of the delivery machine."""
