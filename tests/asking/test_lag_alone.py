"""The lag of groups, from brokers that say what a test tells them to."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace as Answer

import pytest

from kafkaguard import TopicFacts, errors
from kafkaguard._cluster.lag import LagReason
from kafkaguard._cluster.reports import TopicPartition, make
from kafkaguard.errors import ClientTimeoutError
from kafkaguard_adapters.asking.lag import Question, read_lag

COORDINATOR, LEADER, OTHER = 1, 2, 3
LATEST, EARLIEST = -1, -2


def A(partition=0):
    """A partition of topic A."""
    return TopicPartition("A", partition)


class Brokers:
    """Three brokers, in place of a connection with them.

    Attributes:
        logs: First offset, last stable offset and end of each partition.
        commits: What each group has committed: offsets by partition.
        leaders: Who leads a partition; default: LEADER.
        refuses: A code by API and broker, or by API and partition, or by group.
        asked: What was asked, as API and broker.
        old: It knows no request for many groups.
    """

    def __init__(self, **commits):
        self.make = make
        self.addresses = {1: ("a", 1), 2: ("b", 2), 3: ("c", 3)}
        self.logs = {A(0): (0, 100, 100), A(1): (0, 50, 50)}
        self.commits = commits
        self.leaders, self.refuses, self.members = {}, {}, {}
        self.states, self.kinds = {}, {}
        self.asked, self.old = [], False

    async def refresh(self, _deadline, topics=()):
        """Answer Metadata."""
        self.asked.append(("Metadata", tuple(topics)))
        return Answer(topics=[self._topic(name) for name in topics])

    def _topic(self, name):
        places = sorted(p for p in self.logs if p.topic == name)
        return Answer(
            name=name,
            error_code=self.refuses.get(("Metadata", name), 0 if places else 3),
            partitions=[
                Answer(
                    partition_index=p.partition,
                    leader_id=self.leaders.get(p, LEADER),
                    error_code=self.refuses.get(("Metadata", p), 0),
                    replica_nodes=[2, 3],
                )
                for p in places
            ],
        )

    async def version(self, _request, _broker, _deadline):
        """The newest of all, or one of long ago."""
        return 3 if self.old else 99

    async def ask(self, request, broker, _deadline, **_bounds):
        """Answer a request, or raise."""
        api = type(request).__name__.removesuffix("Request")
        self.asked.append((api, broker))
        code = self.refuses.get((api, broker), 0)
        if code:
            raise make(code, api=api, broker=broker)
        return getattr(self, f"_{api}")(request, broker)

    def _ListGroups(self, _request, broker):
        listed = self.states if broker == COORDINATOR else {}
        return Answer(
            error_code=0,
            groups=[
                Answer(
                    group_id=name,
                    group_state=state,
                    protocol_type=self.kinds.get(name, "consumer"),
                    group_type="classic",
                )
                for name, state in listed.items()
            ],
        )

    def _DescribeCluster(self, _request, _broker):
        return Answer(error_code=0, authorized_operations={8})

    def _FindCoordinator(self, request, _broker):
        def found(group):
            code = self.refuses.get(("FindCoordinator", group), 0)
            return Answer(
                key=group,
                error_code=code,
                error_message=None,
                node_id=COORDINATOR,
                host="a",
                port=1,
            )

        if self.old:
            return found(request.key)
        return Answer(coordinators=[found(each) for each in request.coordinator_keys])

    def _OffsetFetch(self, request, _broker):
        def told(group):
            code = self.refuses.get(("OffsetFetch", group), 0)
            by_topic = {}
            for place, offset in self.commits.get(group, {}).items():
                error = self.refuses.get(("OffsetFetch", place), 0)
                each = Answer(
                    partition_index=place.partition,
                    committed_offset=offset,
                    metadata="",
                    error_code=error,
                )
                by_topic.setdefault(place.topic, []).append(each)
            topics = [Answer(name=n, partitions=p) for n, p in by_topic.items()]
            return Answer(group_id=group, error_code=code, topics=topics)

        if self.old:
            return told(request.group_id)
        return Answer(groups=[told(each.group_id) for each in request.groups])

    def _ListOffsets(self, request, broker):
        return Answer(
            topics=[
                Answer(
                    name=topic.name,
                    partitions=[
                        self._offset(
                            TopicPartition(topic.name, each.partition_index),
                            each.timestamp,
                            request.isolation_level,
                            broker,
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _offset(self, place, when, isolation, broker):
        assert broker == self.leaders.get(place, LEADER)
        first, stable, end = self.logs[place]
        last = stable if isolation else end
        return Answer(
            partition_index=place.partition,
            error_code=self.refuses.get(("ListOffsets", place), 0),
            offset=first if when == EARLIEST else last,
            timestamp=-1,
            leader_epoch=0,
        )

    def _ConsumerGroupDescribe(self, request, _broker):
        return Answer(
            groups=[Answer(group_id=each, error_code=69) for each in request.group_ids]
        )

    def _DescribeGroups(self, request, _broker):
        return Answer(
            groups=[
                Answer(
                    group_id=each,
                    error_code=0,
                    group_state=self.states.get(each, "Empty"),
                    members=[],
                )
                for each in request.groups
            ]
        )


class Facts:
    """What is known of topics: A is compacted."""

    async def get(self, _cluster, topics, _deadline):
        """Return it."""
        return {topic: TopicFacts(compacted=True, tiered=False) for topic in topics}


def read(brokers, *groups, within=0.05, read_errors=(), **question):
    """Read the lag of groups; none: of all that there are."""

    async def go():
        deadline = asyncio.get_running_loop().time() + within
        asked = Question(groups or None, **question)
        return await read_lag(brokers, Facts(), asked, deadline, dict(read_errors))

    return asyncio.run(go())


def partitions(report, group="g"):
    """What a report has of a group, as offset, end, lag and reason."""
    return {
        place: (each.committed, each.end, each.lag, each.reason)
        for place, each in report.groups[group].partitions.items()
    }


def test_each_partition_has_commit_end_and_lag():
    """Also those of the same topic that the group has not committed."""
    found = read(Brokers(g={A(0): 90}), "g", within=30)
    assert partitions(found) == {
        A(0): (90, 100, 10, None),
        A(1): (None, 50, None, LagReason.NO_COMMIT),
    }
    assert found.groups["g"].total == 10


def test_commits_are_read_before_ends():
    """In the other order a busy group would be ahead of the end."""
    brokers = Brokers(g={A(0): 90})
    read(brokers, "g", within=30)
    apis = [api for api, _ in brokers.asked]
    assert apis.index("OffsetFetch") < apis.index("ListOffsets")


def test_one_request_serves_all_groups_and_one_each_leader():
    """Many groups of one coordinator; the ends of all partitions at once."""
    brokers = Brokers(**{name: {A(0): 1, A(1): 1} for name in "ghi"})
    brokers.leaders[A(1)] = OTHER
    read(brokers, "g", "h", "i", within=30)
    assert brokers.asked.count(("FindCoordinator", None)) == 1
    assert brokers.asked.count(("OffsetFetch", COORDINATOR)) == 1
    asked = [broker for api, broker in brokers.asked if api == "ListOffsets"]
    assert sorted(asked) == [LEADER, LEADER, OTHER, OTHER]  # ends, then starts


def test_old_brokers_are_asked_group_by_group():
    """A broker without requests for many groups gives the same report, group by group."""
    brokers = Brokers(g={A(0): 90}, h={A(0): 100})
    brokers.old = True
    found = read(brokers, "g", "h", within=30)
    assert partitions(found)[A(0)] == (90, 100, 10, None)
    assert partitions(found, "h")[A(0)] == (100, 100, 0, None)
    assert brokers.asked.count(("OffsetFetch", COORDINATOR)) == 2


def test_a_marker_in_place_of_an_offset_is_no_commit():
    """It is shown, unless it is the -1 that says that there is none."""
    found = read(Brokers(g={A(0): -1001, A(1): -1}), "g", within=30)
    places = found.groups["g"].partitions
    assert [(p.committed, p.marker) for p in places.values()] == [
        (None, -1001),
        (None, None),
    ]
    assert {each.reason for each in places.values()} == {LagReason.NO_COMMIT}


def test_what_retention_took_is_lost_and_no_lag():
    """The start of the log is asked for where somebody has something to read."""
    brokers = Brokers(g={A(0): 10, A(1): 50})
    brokers.logs[A(0)] = (40, 100, 100)
    found = read(brokers, "g", within=30)
    one, other = found.groups["g"].partitions.values()
    assert (one.lag, one.lost, one.log_start) == (60, 30, 40)
    assert (other.lag, other.log_start) == (0, None)


def test_a_reader_of_committed_records_is_measured_by_the_last_stable_offset():
    """A commit beyond it is not beyond the end."""
    brokers = Brokers(g={A(0): 85, A(1): 45})
    brokers.logs[A(0)] = (0, 80, 100)
    found = read(brokers, "g", within=30, isolation=1)
    assert partitions(found) == {A(0): (85, 80, 0, None), A(1): (45, 50, 5, None)}
    behind = read(Brokers(g={A(0): 101}), "g", within=30)
    assert partitions(behind)[A(0)][3] is LagReason.COMMITTED_BEYOND_END


def test_without_a_leader_there_is_no_end():
    """The others have theirs; the error says which brokers have copies."""
    brokers = Brokers(g={A(0): 1, A(1): 1})
    brokers.leaders[A(0)] = -1
    found = read(brokers, "g")
    assert partitions(found)[A(0)] == (1, None, None, LagReason.NO_LEADER)
    assert partitions(found)[A(1)] == (1, 50, 49, None)
    (error,) = found.groups["g"].errors
    assert "replicas are on brokers [2, 3]" in str(error)


def test_a_replica_that_is_away_is_no_reason_to_miss_the_leader():
    """Metadata says 9, and names the leader all the same."""
    brokers = Brokers(g={A(0): 1})
    brokers.refuses["Metadata", A(0)] = 9
    assert partitions(read(brokers, "g", within=30))[A(0)] == (1, 100, 99, None)


def test_a_topic_that_is_gone_says_so():
    """Its commits are still there; one that is named is listed without any."""
    brokers = Brokers(g={TopicPartition("B", 0): 5})
    found = read(brokers, "g", within=30)
    assert partitions(found) == {("B", 0): (5, None, None, LagReason.GONE)}
    named = read(Brokers(g={A(0): 1}), "g", within=30, topics=frozenset({"Z"}))
    assert partitions(named) == {("Z", 0): (None, None, None, LagReason.GONE)}
    assert named.committed_topics == {"A"}


def test_a_topic_that_may_not_be_seen_is_not_gone_and_has_no_missing_leader():
    """Its commits are still there, and nothing else is known of it."""
    brokers = Brokers(g={TopicPartition("B", 0): 5, A(0): 1})
    brokers.refuses["Metadata", "B"] = 29
    found = read(brokers, "g", within=30)
    assert partitions(found)["B", 0] == (5, None, None, LagReason.ERROR)
    assert partitions(found)[A(0)][2] == 99
    (error,) = found.groups["g"].errors
    assert (error.code, error.api, error.topic) == (29, "Metadata", "B")


def test_a_refused_commit_is_told_before_a_refused_end():
    """Without the commit there is no lag, whatever the end."""
    brokers = Brokers(g={A(0): 1})
    brokers.refuses["OffsetFetch", A(0)] = 29
    brokers.refuses["ListOffsets", A(0)] = 29
    (error,) = read(brokers, "g", within=30).groups["g"].errors
    assert (error.code, error.api) == (29, "OffsetFetch")


def test_a_refused_end_is_that_partitions_error():
    """An end offset that is refused is the error of its partition; others have a lag."""
    brokers = Brokers(g={A(0): 1, A(1): 1})
    brokers.refuses["ListOffsets", A(0)] = 29
    found = read(brokers, "g", within=30)
    assert partitions(found)[A(0)] == (1, None, None, LagReason.ERROR)
    assert partitions(found)[A(1)][2] == 49
    (error,) = found.groups["g"].errors
    assert (error.code, error.api, error.partition) == (29, "ListOffsets", 0)


def test_a_refused_commit_is_that_partitions_error():
    """A committed offset that is refused is the error of its partition alone."""
    brokers = Brokers(g={A(0): 1, A(1): 1})
    brokers.refuses["OffsetFetch", A(1)] = 29
    found = read(brokers, "g", within=30)
    assert partitions(found)[A(1)] == (None, 50, None, LagReason.ERROR)
    assert partitions(found)[A(0)][2] == 99


def test_a_group_that_is_denied_hides_no_other():
    """It has its error, and they have their partitions."""
    brokers = Brokers(g={A(0): 1}, h={A(0): 1})
    brokers.refuses["OffsetFetch", "g"] = 30
    brokers.refuses["FindCoordinator", "i"] = 30
    found = read(brokers, "g", "h", "i", within=30)
    assert found.groups["g"].error.api == "OffsetFetch"
    assert found.groups["i"].error.api == "FindCoordinator"
    assert [found.groups[name].error.code for name in "gi"] == [30, 30]
    assert partitions(found, "h")[A(0)][2] == 99
    assert not found.complete


def test_a_report_is_not_complete_where_topics_of_a_group_may_be_hidden():
    """Brokers omit offsets of topics that the user may not see, and say nothing."""
    brokers = Brokers(g={A(0): 1})
    assert read(brokers, "g", within=30).sees_all_topics is True
    brokers.refuses["Metadata", "__kafkaguard-no-topic"] = 29
    found = read(brokers, "g", within=30)
    assert (found.sees_all_topics, found.complete, found.errors) == (False, False, [])
    named = read(brokers, "g", within=30, topics=frozenset({"A"}))
    assert (named.sees_all_topics, named.complete) == (None, True)


def test_all_groups_are_those_that_brokers_list():
    """Only groups of consumers count: an empty one too, not one without a commit."""
    brokers = Brokers(g={A(0): 1}, none={}, connect={A(0): 1})
    brokers.states = {"g": "Stable", "none": "Stable", "connect": "Stable"}
    brokers.kinds["connect"] = "connect"
    found = read(brokers, within=30)
    assert list(found.groups) == ["g"]
    assert found.groups["g"].state == "Stable"
    assert found.sees_all_groups is True


def test_a_broker_that_does_not_list_its_groups_is_named():
    """What the others have listed is there."""
    brokers = Brokers(g={A(0): 1})
    brokers.states = {"g": "Stable"}
    brokers.refuses["ListGroups", OTHER] = 31
    found = read(brokers, within=30)
    assert [error.code for error in found.broker_errors.values()] == [31]
    assert list(found.broker_errors) == [OTHER]
    assert list(found.groups) == ["g"]


def test_topics_that_are_named_are_the_only_ones():
    """Also one that the group has not committed; of all groups only who reads it."""
    brokers = Brokers(g={A(0): 1}, h={TopicPartition("B", 0): 2})
    brokers.logs[TopicPartition("B", 0)] = (0, 9, 9)
    brokers.states = {"g": "Stable", "h": "Stable"}
    named = read(brokers, "g", within=30, topics=frozenset({"B"}))
    assert partitions(named) == {("B", 0): (None, 9, None, LagReason.NO_COMMIT)}
    listed = read(brokers, within=30, topics=frozenset({"B"}))
    assert list(listed.groups) == ["h"]


def test_a_beginning_that_is_assumed_counts_what_is_there():
    """From the first offset of the log, not from 0."""
    brokers = Brokers(g={A(0): 100})
    brokers.logs[A(1)] = (20, 50, 50)
    found = read(brokers, "g", within=30, assume="earliest")
    assert partitions(found)[A(1)] == (None, 50, 30, LagReason.NO_COMMIT)


def test_settings_of_topics_are_a_column():
    """Topic settings are requested for the column `facts` only."""
    brokers = Brokers(g={A(0): 1})
    plain, full = (
        read(brokers, "g", within=30, columns=columns)
        for columns in (frozenset(), frozenset({"facts"}))
    )
    assert plain.groups["g"].partitions[A(0)].compacted is None
    one = full.groups["g"].partitions[A(0)]
    assert (one.compacted, one.tiered) == (True, False)


def test_why_a_reader_cannot_go_on_stands_beside_its_lag():
    """A partition has the error that the watch for remote storage has found."""
    error = errors.RemoteStorageNotReadyError("not yet")
    found = read(
        Brokers(g={A(0): 1}), "g", within=30, read_errors={A(0): error}
    ).groups["g"]
    assert found.partitions[A(0)].read_error is error
    assert found.partitions[A(1)].read_error is None


def test_brokers_that_are_away_end_in_an_error_of_the_group():
    """A group whose coordinator is away has an error within the timeout."""
    brokers = Brokers(g={A(0): 1})

    async def silent(*_, **__):
        raise make(ClientTimeoutError, "no answer")

    brokers.ask = silent
    found = read(brokers, "g")
    assert isinstance(found.groups["g"].error, ClientTimeoutError)


@pytest.mark.parametrize("state", ["Empty", "Dead"])
def test_a_group_without_commits_says_why_there_is_nothing(state):
    """It is there and has not committed, or the cluster has none of that name."""
    brokers = Brokers(g={})
    brokers.states = {"g": state}
    group = read(brokers, "g", within=30).groups["g"]
    reasons = {"Empty": LagReason.NO_COMMIT, "Dead": LagReason.NO_GROUP}
    assert (group.partitions, group.reason) == ({}, reasons[state])
