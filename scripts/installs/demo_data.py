"""The demo's flights are installed, and its connector matches its Spark."""

from pathlib import Path

from kafkaguard.cli.demo.flights import expect, unpack
from kafkaguard.cli.spark_session import connector

expected = expect(unpack(Path()))
assert expected.keyless.total() == 2_512
assert expected.keyed.total() == 334_264
assert connector().endswith(":4.2.0")
