"""Settings with which a Spark of a few seconds takes half the processor time.

It is the same Spark, without two things that pay off in long jobs only:

- Spark puts ``pyspark.zip`` first on the path of its Python workers. The zip has no
  bytecode, so each worker compiles PySpark, for a second. In a home of Spark without
  the zip, workers import the installed PySpark.
- Java's optimizing compiler and its parallel garbage collector take more time than they
  save.

And Java reads Spark's classes from an archive, as it does for brokers.
``python -m tests.quick_spark`` records it, which takes half a minute of an idle machine
and too long for a test of a busy one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from kafkaguard.testing import StartError
from kafkaguard.testing.cluster.archive import with_archive, with_recorded
from kafkaguard.testing.cluster.cache import cache_folder
from kafkaguard.testing.cluster.java import Runtime, java

_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: A job with a shuffle and Python workers, whose classes are recorded.
_JOB = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
df = spark.createDataFrame([("k", 1)], "key string, value long").repartition(2, "key")
df.mapInArrow(lambda batches: batches, df.schema).collect()
spark.stop()
"""
_JOB_S = 300


def set_up() -> None:
    """Set the environment for this process and for those that it starts."""
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or "SPARK_HOME" in os.environ:
        return
    os.environ["SPARK_HOME"] = str(_home(Path(pyspark.origin).parent))
    _set_options()


def use_archive() -> None:
    """Let Java read Spark's classes from the archive, if it was recorded."""
    if (runtime := _runtime()) is not None:
        _set_options(*with_recorded(runtime).options)


def leave_connection() -> None:
    """Have this thread talk to Spark on a new connection.

    A time limit or Ctrl-C that interrupts py4j between question and answer leaves the
    answer on the connection, where each later question would get the one before's.
    """
    pyspark = sys.modules.get("pyspark.sql")
    session = pyspark.SparkSession._instantiatedSession if pyspark else None
    if session is None:
        return
    connection = session._jvm._gateway_client.get_thread_connection()
    if connection is not None:
        connection.close()
    with suppress(OSError):  # Java has ended
        # A new connection has a new thread in Java, where no session is active yet.
        classes = session._get_j_spark_session_class(session._jvm)
        classes.setActiveSession(session._jsparkSession)


def record_archive() -> None:
    """Record the archive, if there is none."""
    set_up()
    if (runtime := _runtime()) is not None:
        with_archive(runtime, _run_once)


def _runtime() -> Runtime | None:
    home = os.environ.get("SPARK_HOME")
    return Runtime(java(), (Path(home) / "jars",)) if home else None


def _run_once(runtime: Runtime) -> None:
    _set_options(*runtime.options)
    try:
        subprocess.run(
            [sys.executable, "-c", _JOB],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=_JOB_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise StartError(error.stderr) from error
    except subprocess.TimeoutExpired as error:
        raise StartError(str(error)) from error


def _set_options(*more: str) -> None:
    """Set the options of Java for drivers, and with them for executors."""
    options = " ".join((*_JAVA_OPTIONS, *more))
    executors = f'"-Dspark.executor.extraJavaOptions={options}"'
    os.environ["SPARK_SUBMIT_OPTS"] = f"{options} {executors}"


def _home(installed: Path) -> Path:
    """Link what Spark needs of an installed PySpark, once."""
    place = hashlib.sha256(bytes(installed)).hexdigest()[:16]
    home = cache_folder() / f"spark-{place}"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        link = home / name
        if not link.is_symlink():
            link.symlink_to(installed / name)
    return home


if __name__ == "__main__":
    record_archive()
