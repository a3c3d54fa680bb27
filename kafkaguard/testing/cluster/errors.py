"""Errors of test clusters."""

from __future__ import annotations

from kafkaguard._common.public import public


@public("kafkaguard.testing")
class ClusterError(RuntimeError):
    """A test cluster failed to do something; the text says what to do next."""


@public("kafkaguard.testing")
class JavaNotFoundError(ClusterError):
    """There is no Java runtime for a broker."""


@public("kafkaguard.testing")
class JarsNotFoundError(ClusterError):
    """The jars of the Kafka version are missing and could not be downloaded."""


@public("kafkaguard.testing")
class StartError(ClusterError):
    """A broker ended or did not answer in time; the text ends with its log."""


class PortTakenError(StartError):
    """Another process took a port between its choice and its use."""
