"""Eight pipeline files with the mistakes of somebody who types one for the first time."""

from __future__ import annotations

import pytest

from tests.cli.pipeline_results import refused

pytestmark = pytest.mark.xdist_group("spark")

FILE = """\
# The last known value of each key.
source:
  format: json
  path: rows.json
select:
  key: k
  value: to_json(struct(*))
order_by: [at]
sink:
  bootstrap_servers: SERVERS
  topic: TOPIC
  config:
    compression.type: lz4
policy:
  extends: spark-sink
  dead_letter:
    topic: DEAD
"""


@pytest.mark.parametrize(
    ("mistake", "line", "said"),
    [
        (("source:", "sorce:"), 2, ("sorce", "'source'")),
        (("format: json", "format: jsn"), 3, ("source.format", "'json'")),
        (("[at]", "[att]"), 8, ("order_by[0]", "'at'")),
        (("to_json(", "to_jsn("), 7, ("select.value", "'to_json'")),
        (
            ("bootstrap_servers", "bootstrap.servers"),
            10,
            ("sink", "'bootstrap_servers'"),
        ),
        (
            ("compression.", "compresion."),
            13,
            ("sink.config", "'kafka.compression.type'"),
        ),
        (("spark-sink", "spark_sink"), 15, ("policy.extends", "'spark-sink'")),
        (
            ("  dead_letter:", "  deadletter:"),
            16,
            ("policy.deadletter", "'dead_letter'"),
        ),
    ],
)
def test_each_mistake_is_answered_with_file_line_key_and_the_right_word(
    run, kafka_cluster, pipeline, topics, mistake, line, said
):
    """Before anything starts, whoever finds it: YAML, Spark, Kafka's client or us."""
    text = FILE.replace("SERVERS", kafka_cluster.bootstrap_servers)
    text = text.replace("TOPIC", topics[0]).replace("DEAD", topics[1])
    assert run(text).exit_code == 0
    message = refused(run(text.replace(*mistake)))
    assert "pipeline.yaml cannot be run:" in message
    assert f"\n  line {line}: {said[0]}" in message
    assert said[1] in message


def test_all_wrong_expressions_are_told_in_one_run(
    run, kafka_cluster, pipeline, topics
):
    """Each start of Spark takes seconds, so one start finds them all."""
    text = FILE.replace("SERVERS", kafka_cluster.bootstrap_servers)
    text = text.replace("TOPIC", topics[0]).replace("DEAD", topics[1])
    text = text.replace("[at]", "[att]").replace("to_json(", "to_jsn(")
    message = refused(run(text))
    assert "line 7: select.value: " in message
    assert "line 8: order_by[0]: " in message
