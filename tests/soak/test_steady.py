"""A long run notices a leak, and calls nothing else one."""

from __future__ import annotations

import json
import random

import pytest

from tests.soak import steady
from tests.soak.trends import quantile, sparkline, trend


def _samples(slope, noise, count=200, level=100.0, seed=1):
    """Make samples of a second each: a level, a slope an hour, and noise."""
    draw = random.Random(seed)
    return [
        (float(n), level + slope * n / 3600 + draw.gauss(0, noise))
        for n in range(count)
    ]


def test_noise_is_flat_and_a_leak_is_not():
    """A leak of 10 MB in 150 s, beside noise of 1 MB, and noise alone."""
    leaks = [trend([_samples(240, 1.0, seed=seed)]) for seed in range(100)]
    assert not any(leak.is_flat(4.0) for leak in leaks)
    assert sum(leak.low < 240 < leak.high for leak in leaks) >= 90
    for seed in range(100):
        assert trend([_samples(0, 1.0, seed=seed)]).is_flat(4.0)


def test_segments_have_levels_of_their_own():
    """A second call begins with less memory, which hides no growth."""
    found = trend([_samples(240, 0.1), _samples(240, 0.1, level=50.0)])
    assert found.slope == pytest.approx(240, rel=0.05)
    flat = trend([_samples(0, 0.1), _samples(0, 0.1, level=500.0)])
    assert flat.is_flat(1.0)


def test_a_program_may_grow_while_it_begins():
    """The first quarter of a segment is not judged."""
    samples = [(float(n), min(n, 50)) for n in range(200)]
    assert trend([samples]).growth == 0


def test_a_slope_that_is_certain_and_small_is_flat():
    """A stated bound: no run is without any change at all."""
    found = trend([_samples(10, 0.01)])
    assert found.low > 0
    assert found.is_flat(4.0)
    assert not found.is_flat(0.1)


def test_too_few_samples_are_no_verdict():
    """A call that ended at once must not look flat."""
    with pytest.raises(ValueError, match="not enough samples"):
        trend([[(0.0, 1.0), (1.0, 1.0)], []])


@pytest.mark.parametrize(
    ("freedom", "expected"), [(2, 4.303), (4, 2.776), (10, 2.228), (14, 2.145)]
)
def test_the_interval_has_the_quantiles_of_a_table(freedom, expected):
    """Those of Student's t for 95 %."""
    assert quantile(freedom) == pytest.approx(expected, rel=0.05)


def test_the_picture_shows_where_it_grew():
    """Low and high are relative to the line itself."""
    assert sparkline([1] * 10 + [9] * 10, width=4) == "▁▁██"
    assert sparkline([]) == ""


def test_a_second_call_goes_on_and_judges_both(tmp_path, monkeypatch, capsys):
    """With all minutes done, nothing is started."""
    monkeypatch.setattr(steady, "KafkaCluster", None)
    segment = {"lag": [[float(n), 50.0 + n, 9, 5, 4] for n in range(40)]}
    state = tmp_path / "state.json"
    state.write_text(json.dumps([segment, segment]))
    (wrong,) = steady.run(1, state, ["lag"])
    assert wrong.startswith("lag: memory, MB grows by 3600.0 an hour")
    assert "sockets" in capsys.readouterr().out


@pytest.mark.java
@pytest.mark.timeout(600)
def test_a_leak_is_noticed_within_40_s(tmp_path):
    """Of memory, descriptors, threads and sockets, in one part of three only."""
    state = tmp_path / "state.json"
    parts = ["produce-confluent", "process-confluent", "lag"]
    wrong = steady.run(40 / 60, state, parts, leaking="lag")
    grows = {line.partition(" grows")[0] for line in wrong}
    assert grows == {f"lag: {measure}" for measure in steady.BOUNDS}, wrong
    assert set(json.loads(state.read_text())[0]) == set(parts)
