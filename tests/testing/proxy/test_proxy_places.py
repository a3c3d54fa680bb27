"""The table of places agrees with Kafka's schemas, in every version of every API."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafkaguard._verdicts.apis import API_KEYS, API_NAMES
from kafkaguard.testing.proxy import frames
from kafkaguard.testing.proxy.actions import Plan, throttle
from kafkaguard.testing.proxy.levels import _rows, levels
from kafkaguard.testing.proxy.places import kinds, layout
from kafkaguard.testing.proxy.plan import shape

KNOWN = [key for key in API_NAMES if frames.max_version(key) is not None]


def _versions(key):
    return range(frames.max_version(key) + 1)


@pytest.mark.parametrize("key", _rows(), ids=API_NAMES.get)
def test_every_row_is_met_by_some_version(key):
    """A misspelt array would hide an API's items without a word."""
    rows = _rows()[key]
    met = {tuple(level.answered for level in levels(key, v)) for v in _versions(key)}
    assert {tuple(answered for _, _, answered in row) for row in rows} <= met


@pytest.mark.parametrize("key", KNOWN, ids=API_NAMES.get)
def test_a_blank_answer_of_every_version_can_be_read(key):
    """What the proxy makes by itself is what a client can decode."""
    for version in _versions(key):
        header = frames.Header(key, version, 7, None, 0)
        frame = frames.encode_answer(header, layout(key, version).blank())
        again = frames.decode_answer(header, frame)
        assert frames.encode_answer(header, again) == frame
        assert frames.correlation_id(frame) == 7


@pytest.mark.parametrize("key", KNOWN, ids=API_NAMES.get)
def test_throttle_is_set_where_an_answer_has_it(key):
    """The connection of a client that logs in was closed when all APIs were throttled."""
    for version in _versions(key):
        answer_layout = layout(key, version)
        request = SimpleNamespace(items=(), version=version)
        plan = Plan(request, None, answer_layout)
        assert throttle(1.5).apply(plan, [], None) == answer_layout.has_throttle
        assert plan.changes_answer == answer_layout.has_throttle
        header = frames.Header(key, version, 7, None, 0)
        frames.encode_answer(header, shape(plan, None, {}))


def test_four_answers_have_no_throttle():
    """Kafka's schemas have the field everywhere else."""
    without = {API_NAMES[key] for key in KNOWN if not layout(key, 0).has_throttle}
    assert without == {
        "DescribeQuorum", "SaslAuthenticate", "SaslHandshake", "WriteTxnMarkers",
    }  # fmt: skip


@pytest.mark.parametrize("key", KNOWN, ids=API_NAMES.get)
def test_every_answer_has_a_place_for_an_error(key):
    """Every API that can be decoded can be failed."""
    assert kinds(key)


def test_places_have_names_that_people_use():
    """Shown in error messages and in ``at=``."""
    assert kinds(API_KEYS["OffsetFetch"]) == ("partition", "top", "group")
    assert kinds(API_KEYS["Metadata"]) == ("topic", "partition", "top")
    assert kinds(API_KEYS["ShareFetch"]) == ()
