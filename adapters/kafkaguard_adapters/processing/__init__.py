"""Consumers that handle records: drivers of the processing machine."""
