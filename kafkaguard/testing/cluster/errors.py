"""Errors of test clusters."""

from __future__ import annotations


class ClusterError(RuntimeError):
    """A test cluster failed to do something; the text says what to do next."""


class JavaNotFoundError(ClusterError):
    """There is no Java runtime for a broker."""


class JarsNotFoundError(ClusterError):
    """The jars of the Kafka version are missing and could not be downloaded."""


class StartError(ClusterError):
    """A broker ended or did not answer in time; the text ends with its log."""


class PortTakenError(StartError):
    """Another process took a port between its choice and its use."""
