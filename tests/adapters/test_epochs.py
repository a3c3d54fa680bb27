"""Each epoch of a producer id is taken once."""

from hypothesis import given
from hypothesis import strategies as st

from kafkaguard_adapters.producing.epochs import Epochs

KNOWN = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)))


@given(KNOWN)
def test_an_epoch_is_new_and_above_what_is_known(known):
    """For each id by itself, however the ids alternate."""
    epochs, taken = Epochs(), []
    for producer_id, epoch in known:
        newer = epochs.take(producer_id, epoch)
        assert newer > epoch
        taken.append((producer_id, newer))
    assert len({*taken}) == len(taken)


def test_there_is_none_after_the_last():
    """Brokers give no epoch above 32,767."""
    epochs = Epochs()
    assert [epochs.take(1, 32_766) for _ in range(2)] == [32_767, None]
    assert epochs.take(1, 0) is None
    assert epochs.take(2, 32_767) is None
