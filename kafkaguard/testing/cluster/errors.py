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
    """Kafka's jars are not available; the text says what to do.

    There is no such version, the download failed, or ``KAFKAGUARD_KAFKA_JARS`` names a
    folder that lacks a jar.
    """


@public("kafkaguard.testing")
class StartError(ClusterError):
    """A broker ended or did not answer in time; the text ends with its log."""


class PortTakenError(StartError):
    """Another process took a port between its choice and its use."""
