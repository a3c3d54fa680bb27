"""A sample of the atlas is as it was recorded, and what disagrees is explained."""

from __future__ import annotations

from random import Random

import pytest

from kafkaguard.cli.client_behaviour import Observed, sentence
from tests.atlas import data, pool
from tests.atlas.cells import CLIENTS, CODES, NOT_MADE, UNKNOWN, Cell, all_cells, codes
from tests.atlas.judge import Explained, disagreements

#: Cells of the sample; those that are answered for ever take seconds.
ONCE, EVER = 180, 20
#: How often a cell is played until it counts as different, and how many may be: which of
#: two requests meets the answer is a race, and busy machines decide it in another way.
TRIES, RACES = 3, 4
#: A client that asks so often asks as fast as it can; the machine decides how often.
MANY = 50
#: What a race does not change.
STABLE = ("error", "written", "lives")


@pytest.fixture(scope="module")
def recorded():
    """The cells of the package."""
    return {data.key(line): line for line in data.read()}


@pytest.mark.java
@pytest.mark.timeout(400)
def test_clients_do_what_was_recorded(recorded):
    """Each cell of a sample has the same error, effect and end, and about as many requests."""
    cells = [cell for cell in all_cells() if data.key(cell.as_json()) in recorded]
    dice, left = Random(34), []
    for ever, count in ((False, ONCE), (True, EVER)):
        kind = [cell for cell in cells if cell.ever == ever]
        left += dice.sample(kind, min(count, len(kind)))
    with pool.cluster() as cluster:
        workers = pool.Pool(pool.addresses(cluster), 2)
        for _ in range(TRIES):
            different = []

            def tell(line, different=different):
                if data.is_sound(line) and not is_alike(line, recorded[data.key(line)]):
                    different.append(line)

            workers.play(left, tell)
            left = [Cell(*data.key(line)) for line in different]
            if not left:
                break
    assert len(different) <= RACES, different


def is_alike(line, known):
    """Compare what must be the same, and the requests within a band."""
    alike = all(line.get(name) == known[name] for name in STABLE)
    count, other = (min(each["requests"] or 0, MANY) for each in (line, known))
    return alike and abs(count - other) <= max(2, 0.6 * max(count, other))


def test_all_that_disagrees_with_a_verdict_is_explained(recorded):
    """`make atlas` fails on it, too."""
    explained = Explained()
    unknown = [
        (kind, *key)
        for key, line in recorded.items()
        for kind in disagreements(line)
        if explained.why(kind, line) is None
    ]
    assert not unknown


def test_no_guarded_client_tells_what_is_not_so(recorded):
    """No record is lost that counts as sent, or written that counts as not written."""
    wrong = [
        key
        for key, line in recorded.items()
        if {"told-not-written", "lost"} & {*disagreements(line)}
    ]
    assert not wrong


def test_each_request_has_codes_that_kafka_has_and_three_that_it_lacks():
    """Each cell stands once in the atlas."""
    cells = all_cells()
    assert len(cells) == len(set(cells))
    made = sum(len(CLIENTS) - sum(api in n for n in NOT_MADE.values()) for api in CODES)
    assert made == len({(cell.client, cell.api) for cell in cells})
    for api in CODES:
        assert codes(api)[-3:] == list(UNKNOWN)


OBSERVED = Observed(1, 0.1, None, None, None, None, True, True, None, None)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "goes on"),
        ({"requests": 0}, "does not ask"),
        ({"requests": 2}, "asks again, and succeeds"),
        ({"requests": 2, "written": 2}, "asks again, and succeeds; written 2 times"),
        (
            {"requests": 50, "seconds": 6.1},
            "asks until the answers end (50 requests)",
        ),
        ({"error": "X", "raised": 7, "written": 0}, "raises X; not done"),
        (
            {"error": "X", "raised": -1, "lives": False},
            "raises X with code -1; the client is dead",
        ),
        (
            {"requests": 14, "seconds": 5.0, "error": "X"},
            "14 requests in 5.0 s, then raises X",
        ),
        (
            {"error": "X", "requests": 3, "seconds": 4.0, "written": 3},
            "3 requests in 4.0 s, then raises X; written 3 times",
        ),
        ({"error": "AnsweredError", "raised": 7}, "returns the code"),
        ({"error": "SilenceError"}, "neither returns nor raises"),
        ({"error": "Hung", "lives": None}, "never returns"),
    ],
)
def test_what_a_client_did_is_said_in_words(more, words):
    """As `kafkaguard explain` and the documentation quote it."""
    assert words == sentence(7, OBSERVED._replace(**more), 6.0)
