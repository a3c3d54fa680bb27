"""Requests to a cluster: lag, log directories, offsets, groups."""
