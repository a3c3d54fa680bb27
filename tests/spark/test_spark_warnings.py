"""What a write warns of, and what its failures carry."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

import kafkaguard.spark
from tests.spark.spark_reading import read

pytestmark = pytest.mark.xdist_group("spark")


def rows(spark, value="cast(id as string)"):
    """Make four rows."""
    return spark.range(4, numPartitions=2).select(F.expr(value).alias("value"))


@pytest.mark.parametrize(
    ("value", "options", "warns"),
    [
        ("uuid()", {"partitions": 2}, True),
        ("uuid()", {"policy": "spark-sink"}, False),
        ("cast(id as string)", {"partitions": 2}, False),
    ],
)
def test_random_column_is_warned_of_where_there_is_a_shuffle(
    spark, kafka_cluster, value, options, warns
):
    """Spark may compute its rows again with other values, and mix both."""
    topic = kafka_cluster.create_topic()
    kafka_cluster.create_topic(f"{topic}.dlq")
    report = kafkaguard.spark.write(
        rows(spark, value),
        topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        **options,
    )
    assert warns == any("is not deterministic" in each for each in report.warnings)
    assert report.delivered == 4


def test_random_column_above_a_shuffle_of_the_caller_is_warned_of(
    spark, kafka_cluster, kafka_topic
):
    """The plan shows it, though the write itself needs no shuffle."""
    shuffled = rows(spark).repartition(3, "value")
    report = kafkaguard.spark.write(
        shuffled.select(F.expr("concat(value, uuid())").alias("value")),
        kafka_topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
    )
    assert any("is not deterministic" in each for each in report.warnings)


def test_error_of_spark_carries_how_many_records_were_appended(
    spark, kafka_cluster, kafka_topic
):
    """It ends the job as a refused record does, and says nothing of the topic."""
    wrong = rows(spark, "cast(cast(concat('x', id) as int) as string)")
    with pytest.raises(Exception) as caught:
        kafkaguard.spark.write(
            wrong, kafka_topic, bootstrap_servers=kafka_cluster.bootstrap_servers
        )
    assert kafkaguard.spark.error_from(caught.value) is None
    (note,) = caught.value.__notes__
    assert note == f"0 records were appended to {kafka_topic} while the job ran"


@pytest.mark.parametrize("kind", ["binary", "int"])
def test_headers_are_written_from_a_map_as_the_error_says(
    spark, kafka_cluster, kafka_topic, kind
):
    """The expression in the error about a map of headers works."""
    df = rows(spark).withColumn("headers", F.expr(f"map('n', cast(null as {kind}))"))
    with pytest.raises(Exception) as caught:
        kafkaguard.spark.write(
            df, kafka_topic, bootstrap_servers=kafka_cluster.bootstrap_servers
        )
    expression = str(caught.value).partition(": write ")[2].partition(" -> CONF")[0]
    kafkaguard.spark.write(
        df.withColumn("headers", F.expr(expression)),
        kafka_topic,
        bootstrap_servers=kafka_cluster.bootstrap_servers,
    )
    assert {("n", None)} == {m.headers()[0] for m in read(kafka_cluster, kafka_topic)}
