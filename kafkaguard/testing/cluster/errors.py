"""Errors of test clusters."""

from __future__ import annotations


class ClusterError(RuntimeError):
    """A test cluster could not do what was asked; the text says what to do next."""


class JavaNotFoundError(ClusterError):
    """There is no Java runtime that a broker could run on."""


class JarsNotFoundError(ClusterError):
    """The jars of the Kafka version asked for are not there and could not be had."""


class StartError(ClusterError):
    """A broker ended, or did not answer in time; the text ends with its log."""


class PortTakenError(StartError):
    """Somebody else took a port between its choice and its use."""
