"""Settings with which a Spark of a few seconds takes half the processor time.

It is the same Spark, without two things that pay off in long jobs only:

- Spark puts ``pyspark.zip`` first on the path of its Python workers. The zip has no
  bytecode, so each worker compiles PySpark, for a second. In a home of Spark without
  the zip, workers import the installed PySpark.
- Java's optimizing compiler and its parallel garbage collector take more time than they
  save.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path

from kafkaguard.testing.cluster.cache import cache_folder

_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def set_up() -> None:
    """Set the environment for this process and for those that it starts."""
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or "SPARK_HOME" in os.environ:
        return
    os.environ["SPARK_HOME"] = str(_home(Path(pyspark.origin).parent))
    executors = f'"-Dspark.executor.extraJavaOptions={_JAVA_OPTIONS}"'
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_JAVA_OPTIONS} {executors}"


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
