"""A change that is repeated because its answer was lost, and was made the first time."""

from __future__ import annotations

import logging

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions, NewTopic

from kafkaguard import RetryPolicy, guard, load_policy, retry
from kafkaguard import errors as e
from kafkaguard.policies import CallContext
from tests.own_log import own_records
from tests.policies.helpers import FakeTime, Script, retrier

FAST = RetryPolicy(backoff={"kind": "fixed", "base": 1, "jitter": "none"})
LOST = e.RequestTimedOutError
GROWN = "The topic t currently has {} partition(s); {} would not be an increase."


def run(api, *answers, **more):
    """Run a script of answers under a policy; return what came back."""
    context = CallContext(api=api)
    return retrier(FAST, FakeTime(), context=context, **more).run(Script(*answers))


@pytest.mark.parametrize(
    ("api", "answer"),
    [
        ("CreateTopics", e.TopicAlreadyExistsError),
        ("CreatePartitions", e.InvalidPartitionsError),
        ("DeleteTopics", e.UnknownTopicOrPartitionError),
        ("DeleteTopics", e.UnknownTopicIdError),
        ("DeleteGroups", e.GroupIdNotFoundError),
        ("OffsetDelete", e.GroupIdNotFoundError),
        ("ExpireDelegationToken", e.DelegationTokenNotFoundError),
        ("UnregisterBroker", e.BrokerIdNotRegisteredError),
    ],
)
@pytest.mark.parametrize("lost", [LOST, e.ClientTimeoutError, ConnectionError])
def test_exists_already_and_is_not_there_are_the_success_of_a_repeated_call(
    api, answer, lost
):
    """After an answer of unknown outcome only; the first answer stays an error."""
    text = GROWN.format(3, 3)
    assert run(api, lost(), answer(text)) is None
    assert run(api, lost(), lost(), answer(text)) is None
    with pytest.raises(answer):
        run(api, answer(text))


def test_answer_that_says_that_nothing_was_done_makes_no_success():
    """The controller moved: nothing was attempted, so it is somebody else's."""
    with pytest.raises(e.TopicAlreadyExistsError):
        run("CreateTopics", e.NotControllerError(), e.TopicAlreadyExistsError())


@pytest.mark.parametrize("text", [GROWN.format(5, 3), "Partitions may not be 0", None])
def test_partitions_that_are_refused_for_another_reason_are_an_error(text):
    """More than were asked for, or a number that is none."""
    with pytest.raises(e.InvalidPartitionsError):
        run("CreatePartitions", LOST(), e.InvalidPartitionsError(text))


def test_another_error_of_a_repeated_call_is_no_success():
    """Its rule does not say that the change was made."""
    with pytest.raises(e.InvalidReplicationFactorError):
        run("CreateTopics", LOST(), e.InvalidReplicationFactorError())


@pytest.mark.parametrize(
    ("confirm", "said"),
    [
        (None, "nothing checked the result"),
        (lambda: True, None),
        (lambda: None, None),
        (lambda: False, "differs from the request: check it"),
        (lambda: "1 partition, not 3", "from the request: 1 partition, not 3"),
        (lambda: 1 / 0, "confirm() raised"),
    ],
)
def test_what_is_there_is_compared_with_what_was_asked(confirm, said, caplog):
    """A warning if it differs, or if nobody can tell."""
    answers = LOST(), e.TopicAlreadyExistsError()
    with caplog.at_level(logging.WARNING, "kafkaguard.retry"):
        assert run("CreateTopics", *answers, confirm=confirm) is None
    if said is None:
        assert own_records(caplog) == []
    else:
        assert said in caplog.text


@pytest.fixture
def admin(kafka_faults):
    """A guarded admin behind the proxy."""
    bare = KafkaAdminClient(bootstrap_servers=kafka_faults.bootstrap_servers)
    with guard(bare) as guarded:
        yield guarded


def under_policy(api, fn):
    """Call under the policy for administrators."""
    return retry(load_policy("admin"), api=api)(fn)()


@pytest.mark.java
def test_create_grow_and_delete_whose_answers_are_lost(
    kafka_cluster, kafka_faults, admin
):
    """Each was done, and each is told as done, after two requests."""
    name = kafka_cluster.create_topic() + "-new"
    calls = {
        "CreateTopics": lambda: admin.create_topics([NewTopic(name, 2, 1)]),
        "CreatePartitions": lambda: admin.create_partitions({name: NewPartitions(3)}),
        "DeleteTopics": lambda: admin.delete_topics([name]),
    }
    for api, call in calls.items():
        with kafka_faults.on(api).fail(7, written=True, times=1):
            under_policy(api, call)
        assert len(kafka_faults.requests(api)) == 2
    with pytest.raises(Exception) as caught:
        under_policy("DeleteTopics", calls["DeleteTopics"])
    assert getattr(caught.value, "errno", None) == 3
