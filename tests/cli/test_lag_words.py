"""What ``kafkaguard lag`` says about topics and groups that are not there."""

from __future__ import annotations

import json

import pytest

from kafkaguard._cluster.lag import (
    GroupLag,
    LagReason,
    LagReport,
    PartitionLag,
    measure,
)
from kafkaguard._cluster.reports import TopicPartition, make
from kafkaguard.cli.commands import lag as command
from kafkaguard.cli.group import run

TOPICS = frozenset({"orders", "flights"})


class Reporting:
    """Answers every question about lag with one report."""

    def __init__(self, report):
        self.report = report

    def lag(self, **_question):
        """Return the report."""
        return self.report

    def close_view(self):
        """Close nothing."""


def group(name, *partitions, state="Empty", error=None):
    """A group with the reasons of its partitions, by topic and number."""
    lags = {
        TopicPartition(*place): PartitionLag(*place, reason=reason)
        for *place, reason in partitions
    }
    return GroupLag(name, state, error, lags)


@pytest.fixture
def told(monkeypatch, capsys):
    """Run the command with a report; return its exit code, table and remarks."""

    def call(*arguments, groups=(), sees_all=None, broker_errors=(), topics=None):
        report = LagReport(
            {each.group: each for each in groups},
            0.0,
            dict(enumerate(broker_errors)),
            sees_all,
            TOPICS,
            topics,
        )
        monkeypatch.setattr(command, "connect", lambda *_: Reporting(report))
        code = run(["lag", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err.splitlines()

    return call


def test_a_misspelt_topic_is_one_sentence_with_the_closest_name(told):
    """Nothing is said about the other topics of the cluster."""
    text = "no group has committed offsets for topic ordrs; did you mean 'orders'?"
    assert (1, "", [text]) == told("--topic", "ordrs", sees_all=True)
    far = "no group has committed offsets for topic xyzzy"
    assert (1, "", [far]) == told("--topic", "xyzzy", sees_all=True)
    _, printed, _ = told("--topic", "xyzzy", "--json", sees_all=True)
    assert [far] == json.loads(printed)["remarks"]


def test_the_sentence_names_the_groups_that_it_is_about(told):
    """Groups may be hidden from this user, or unreadable."""
    _, _, said = told("--topic", "xyzzy", sees_all=False)
    assert said == [
        "no group that this user may Describe has committed offsets for topic xyzzy"
    ]
    _, _, said = told("--topic", "xyzzy", broker_errors=[make(15)])
    assert (
        "no group whose offsets could be read has committed offsets for topic xyzzy"
        in said
    )


def test_topics_that_this_user_may_not_see_are_told(told):
    """A third of the lag looks like all of it."""
    code, _, said = told(groups=[group("g", ("t", 0, None))], topics=False)
    assert code == 1
    (note,) = said
    assert note.startswith("brokers leave out topics that this user may not Describe")
    assert note.endswith("name the topics with --topic")


def test_a_cluster_without_groups_is_told_where_no_topic_is_named(told):
    """It is an answer, with exit code 0."""
    assert told(sees_all=True) == (0, "", ["the cluster has no group with a commit"])


def test_a_topic_that_is_not_there_is_told_in_words(told):
    """In the table and below, with the closest name; a topic with a commit is not."""
    gone = group("g2", ("ordrs", 0, LagReason.GONE))
    code, table, said = told("g2", "--topic", "ordrs", groups=[gone])
    assert code == 1
    assert "topic ordrs is not there" in table
    text = "there is no topic ordrs, or this user may not see it (the operation "
    assert [f"{text}Describe); did you mean 'orders'?"] == said
    _, table, _ = told("g2", "--topic", "ordrs", "--partitions", groups=[gone])
    assert "not there" in table
    empty = group("g2", ("orders", 0, LagReason.NO_COMMIT))
    assert told("g2", "--topic", "orders", groups=[empty])[2] == []


def test_a_topic_of_a_group_that_cannot_be_read_is_not_called_missing(told):
    """The error of the group is all that is known."""
    code, _, said = told("g", "--topic", "orders", groups=[group("g", error=make(30))])
    assert (code, len(said)) == (1, 1)
    assert "GROUP_AUTHORIZATION_FAILED" in said[0]


def test_offsets_that_are_gone_are_counted_for_the_group(told):
    """They show although nothing else is wrong, so the lag alone would look fine."""
    places = {
        TopicPartition("orders", n): measure(
            TopicPartition("orders", n), 10, 30, log_start=start
        )
        for n, start in enumerate((30, 15, 5))
    }
    _, table, _ = told(groups=[GroupLag("g", partitions=places)], sees_all=True)
    assert "2 partitions: 25 offsets are gone" in table


def test_reasons_are_counted_by_partition(told):
    """The remark says what is counted, in words."""
    places = [("orders", n, LagReason.NO_COMMIT) for n in range(2)]
    places += [("orders", 2, LagReason.GONE), ("flights", 0, LagReason.LEFT)]
    _, table, _ = told(groups=[group("g", *places)], sees_all=True)
    for text in (
        "2 partitions: no commit",
        "1 partition: not there",
        "1 partition: left (the group reads other topics)",
    ):
        assert text in table
