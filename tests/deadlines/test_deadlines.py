"""A record's outcome comes within the policy's deadline, whatever its broker does.

``make quick`` tries a part of the faults, drawn by a seed; ``python -m tests.deadlines``
tries all, and 10 and 60 s.
"""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tests.deadlines.runs import CLIENTS, FAULTS, run
from tests.effort import cases

DEADLINE_S = 3.0
ALL = [*product(CLIENTS, FAULTS)]
TRIED = Random(7).sample(ALL, cases(len(ALL), quick=5))


@pytest.mark.parametrize(("client", "fault"), TRIED)
def test_the_outcome_comes_within_the_deadline(kafka_cluster, client, fault):
    """Or the record is delivered, where the fault ends before."""
    one = run(kafka_cluster, client, fault, DEADLINE_S)
    assert one.is_in_time, one
    if fault == "leader back after half":
        assert one.outcome == "delivered"
        assert one.seconds >= DEADLINE_S / 2
    else:
        assert one.outcome.endswith((", no", ", maybe")), one
        is_final = one.outcome.startswith("INVALID_RECORD")
        assert is_final or one.seconds >= DEADLINE_S * 0.9
    is_tried = fault in ("19 for ever", "leader back after half")
    if fault != "refused, then silent":
        assert one.attempts > 1 if is_tried else one.attempts <= 1


@pytest.mark.filterwarnings("ignore::kafkaguard.errors.StackingWarning")
@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_attempts_without_idempotence_end_as_the_policy_says(kafka_cluster, client):
    """The policy's attempts are the client's own; the guard adds none to them."""
    policy = {"max_attempts": 3, "backoff": {"base": 0.05, "cap": 0.1}}
    one = run(kafka_cluster, client, "19 for ever", 20.0, policy, idempotent=False)
    assert one.attempts == 3, one
    assert one.outcome == "NOT_ENOUGH_REPLICAS, no"
    assert one.seconds < 10
