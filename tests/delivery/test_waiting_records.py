"""A topic knows whether only dead letters wait, without walking all that does."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from kafkaguard._delivery.table import RecordState
from kafkaguard._delivery.topic_round import TopicRound


def record(*, is_letter, resend_count=0):
    """Make a record that waits."""
    return SimpleNamespace(
        state=RecordState.QUEUED,
        is_letter=is_letter,
        resend_count=resend_count,
        retry=None,
        key=b"k",
        rank=(0,),
        is_suspect=False,
    )


STEPS = st.lists(
    st.one_of(
        st.builds(record, is_letter=st.booleans(), resend_count=st.integers(0, 1)),
        st.just("end"),
        st.just("take"),
    )
)


@given(STEPS, st.randoms(use_true_random=False))
def test_only_letters_is_what_a_walk_would_say(steps, random):
    """However records are added, ended while they wait, and taken to be sent."""
    topic, added = TopicRound("t"), []
    for step in steps:
        if step == "end":
            waiting = [r for r in added if r.state is RecordState.QUEUED]
            if waiting:
                random.choice(waiting).state = RecordState.SETTLED
        elif step == "take":
            for each in topic.next_group():
                each.state = RecordState.SENDING
        else:
            topic.add(step)
            added.append(step)
        walked = all(r.is_letter and not r.resend_count for r in topic.queued())
        assert walked == topic.has_only_letters()


def test_ten_thousand_letters_are_looked_at_once_each():
    """A flood of refused records must not stop the thread that hears of it."""
    looks = 0

    class Letter:
        is_letter, resend_count, retry = True, 0, None

        @property
        def state(self):
            nonlocal looks
            looks += 1
            return RecordState.QUEUED

    topic = TopicRound("t")
    for _ in range(10_000):
        topic.add(Letter())
        assert topic.has_only_letters()
    assert looks <= 10_000
