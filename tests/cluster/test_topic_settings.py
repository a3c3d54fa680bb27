"""What is read out of the settings that a broker tells of a topic."""

from __future__ import annotations

import pytest

from kafkaguard._cluster.topic_settings import TopicSettings, read
from kafkaguard._verdicts.context import TopicFacts


@pytest.mark.parametrize(
    ("policy", "compacted"),
    [
        ("delete", False),
        ("compact", True),
        ("compact,delete", True),
        ("delete, compact", True),
        ("", False),
        (None, None),
    ],
)
def test_cleanup_policy_is_a_list(policy, compacted):
    """Spaces after its commas mean nothing; without a value nothing is known."""
    assert compacted == read({"cleanup.policy": policy}).compacted


def test_settings_that_a_broker_does_not_tell_are_not_known():
    """An older broker without remote storage counts as not tiered."""
    assert TopicSettings(None, False, None) == read({})


def test_all_settings_are_read():
    """The size as a number; the facts are what a verdict may rest on."""
    found = read(
        {
            "cleanup.policy": "compact",
            "remote.storage.enable": "true",
            "max.message.bytes": "1048588",
            "retention.ms": "1",
        }
    )
    assert TopicSettings(True, True, 1_048_588, 1) == found
    assert TopicFacts(compacted=True, tiered=True) == found.facts
