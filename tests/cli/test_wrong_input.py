"""What a newcomer got wrong at the command line, and what the answer must be."""

from __future__ import annotations

from kafkaguard.cli._main import run


def test_a_broker_that_there_is_not_is_no_lost_record(kafka_cluster, capsys):
    """`log-dirs --broker 99` speaks of brokers, not of a record to send again."""
    arguments = ["-b", kafka_cluster.bootstrap_servers, "--broker", "99"]
    assert run(["log-dirs", *arguments]) == 1
    told = capsys.readouterr().err
    assert "the cluster has no broker 99; it has 0" in told
    assert "record" not in told
