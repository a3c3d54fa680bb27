"""A policy's attempts for records that were certainly not written.

A test class inherits this beside the producer's contract, and implements how a topic is
lost in such a way that its client knows that nothing was written.
"""

from __future__ import annotations

import logging
import time

import pytest

from kafkaguard._retries.events import GiveUpEvent, RetryEvent
from tests.contracts.producer import MARGIN_S, read, until

#: The seconds that the client tries a record, and those that the policy tries it.
CLIENT_S, POLICY_S = 1.0, 90.0
CLIENT_MS = int(CLIENT_S * 1000)
PATIENT = {
    "deadline": POLICY_S,
    "max_attempts": 200,
    "backoff": {"base": 0.1, "cap": 0.5},
    "budget": None,
}


def told(writer, kind):
    """Wait for events of a kind; hooks receive them in another thread."""

    def found():
        return [event for event in writer.events if isinstance(event, kind)]

    until(found)
    return found()


class AttemptsContract:
    """A producer whose policy sends records again that were not written."""

    def lose_topic(self, writer, cluster, faults):
        """Return a topic that accepts no records, and a function that restores it.

        By default the only broker refuses connections, so no batch leaves the client.
        """
        topic = cluster.create_topic()
        assert writer.outcome(writer.send(topic, b"first", b"first")) == 0
        faults.take_away(0)
        return topic, lambda: faults.bring_back(0)

    def patient(self, faults, **changes):
        """Open a writer whose policy tries for longer than its client."""
        return self.open(
            faults.bootstrap_servers,
            policy={**PATIENT, **changes},
            delivery_timeout=CLIENT_S,
        )

    def test_what_was_not_written_is_sent_again_in_order(
        self, kafka_cluster, kafka_faults
    ):
        """Within the policy's deadline: once each, in the order of the key."""
        with self.patient(kafka_faults) as writer:
            topic, bring_back = self.lose_topic(writer, kafka_cluster, kafka_faults)
            handles = [writer.send(topic, b"%d" % n, b"k") for n in range(5)]

            def has_tried():
                writer.serve()
                numbers = [e.number for e in writer.events if isinstance(e, RetryEvent)]
                return max(numbers, default=0) > 2

            until(has_tried, 60)
            bring_back()
            ends = writer.outcomes(handles)
            assert all(isinstance(end, int) for end in ends), ends
            assert sorted(ends) == ends
            report = writer.flush()
            assert (report.failed, report.in_doubt, report.errors) == (0, 0, ())
        values = [value for key, value in read(kafka_cluster, topic) if key == b"k"]
        assert values == [b"0", b"1", b"2", b"3", b"4"]

    def test_attempts_end_as_the_policy_says(self, kafka_cluster, kafka_faults):
        """After the last one the record has failed, and its error says how often."""
        with self.patient(kafka_faults, max_attempts=2) as writer:
            topic, bring_back = self.lose_topic(writer, kafka_cluster, kafka_faults)
            error = writer.end_of(topic, b"v", b"k")
            bring_back()
            assert isinstance(error, self.client_error)
            assert (error.verdict.retriable, error.verdict.written) == (True, "no")
            assert "2 attempts were made" in str(error)
            (end,) = told(writer, GiveUpEvent)
            assert (end.attempts, end.reason) == (2, "ATTEMPTS")
            assert writer.flush().failed == 1

    def test_a_retry_budget_bounds_the_attempts(self, kafka_cluster, kafka_faults):
        """Each takes a token, and without one the record has failed."""
        budget = {"capacity": 2, "deposit": 0.0001}
        with self.patient(kafka_faults, budget=budget) as writer:
            topic, bring_back = self.lose_topic(writer, kafka_cluster, kafka_faults)
            end = writer.end_of(topic, b"v", b"k")
            bring_back()
            assert "3 attempts were made" in str(end)
            (told_end,) = told(writer, GiveUpEvent)
            assert told_end.reason == "BUDGET"

    def test_sends_of_the_topic_wait_meanwhile(self, kafka_cluster, kafka_faults):
        """None overtakes what is sent again: it comes after that, in its order."""
        with self.patient(kafka_faults) as writer:
            topic, bring_back = self.lose_topic(writer, kafka_cluster, kafka_faults)
            first = writer.send(topic, b"0", b"k")

            def is_held():
                writer.serve()
                return any(isinstance(e, RetryEvent) for e in writer.events)

            until(is_held, 60)
            bring_back()
            second = writer.send(topic, b"1", b"k")
            ends = writer.outcomes([first, second])
            assert all(isinstance(end, int) for end in ends), ends
            assert sorted(ends) == ends

    @pytest.mark.filterwarnings("ignore::kafkaguard.errors.StackingWarning")
    def test_a_policy_with_less_time_than_the_client_sends_nothing_again(
        self, kafka_cluster, kafka_faults, caplog
    ):
        """The client's own attempts are all there are, and the policy is theirs."""
        name = f"short-{type(self).__name__}"
        policy = {"name": name, "deadline": CLIENT_S, "max_attempts": 7}
        servers = kafka_faults.bootstrap_servers
        with (
            caplog.at_level(logging.INFO, "kafkaguard"),
            self.open(servers, policy=policy, delivery_timeout=CLIENT_S) as writer,
        ):
            topic, bring_back = self.lose_topic(writer, kafka_cluster, kafka_faults)
            start = time.monotonic()
            error = writer.end_of(topic, b"v", b"k")
            bring_back()
            assert time.monotonic() - start < CLIENT_S + MARGIN_S
            assert isinstance(error, self.client_error)
            assert error.verdict.written == "no"
            assert not any(isinstance(e, RetryEvent) for e in writer.events)
            writer.guarded.report()
            effect = writer.guarded.policy_in_effect()
        (row,) = (r for r in effect.settings if r.became.endswith(f"= {CLIENT_MS}"))
        assert (row.setting, row.obeyed_by) == ("deadline", "the client")
        said = [r.getMessage() for r in caplog.records if name in r.getMessage()]
        assert not any("sends nothing again" in text for text in said)
