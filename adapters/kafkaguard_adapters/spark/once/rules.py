"""What markers and plans say, and what follows from them; no I/O.

A *shard* is a fixed part of the rows of a batch. It is written in one transaction, and
the same transaction commits the shard's *marker*. The *plan* of a batch is committed by
the driver before its tasks start. The order of events:

1. The driver takes over the id ``<name>-driver``, so an older driver is fenced. It
   reads plan and markers, and commits the plan of its batch.
2. A task takes over the id of its shard. Whatever an earlier copy of it has sent is now
   committed, aborted, or will be refused. Only then it reads plan and marker: what they
   say cannot change any more without the task being fenced.
3. The task writes rows and marker, or skips rows that are written, or ends.

Each flow is a generator of steps. A driver makes them, and sends the answers back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

_RESULT = TypeVar("_RESULT")
_ENTRY = TypeVar("_ENTRY", "Marker", "Plan")
#: The setting that errors name.
SETTING = "exactly_once"
#: The batch of a marker or plan that says: nothing is written.
NOTHING = -1
#: The digest, query or content that fits all: a command has settled it.
ANY = "any"
#: The query of a job that is not a stream.
NO_QUERY = "batch"
#: The share of the offsets' retention in which an entry that is missing was never
#: made. Clocks differ, and brokers delete late, never early.
SURE = 0.9
_HEAD = "kafkaguard"
_HALF = 64


class Marker(NamedTuple):
    """What a shard's last transaction has written.

    Attributes:
        run: The run of the driver.
        batch: The batch; :data:`NOTHING` after ``kafkaguard once forget``.
        rows: How many rows the shard had.
        digest: The rows' digest, or :data:`ANY`.
        time: When it was made, in seconds since 1970.
    """

    run: str
    batch: int
    rows: int
    digest: str
    time: int


class Plan(NamedTuple):
    """What the driver has begun to write.

    Attributes:
        run: The run of the driver; tasks of other runs end.
        query: The stream's id, from its checkpoint; :data:`NO_QUERY` or :data:`ANY`.
        batch: The batch; :data:`NOTHING` after ``kafkaguard once forget``.
        shards: The number of shards, as in the first plan.
        width: How many shards have their markers in one group.
        content: A hash of topic and schema, or :data:`ANY`.
        first: When the batch was first planned, in seconds since 1970.
        time: When this plan was made.
    """

    run: str
    query: str
    batch: int
    shards: int
    width: int
    content: str
    first: int
    time: int


class History(NamedTuple):
    """What a stream's checkpoint says about a batch, in seconds of age.

    Attributes:
        entry: When the batch was first planned; None: unknown.
        previous: When the batch before it ended; None: there is none, or unknown.
        was_tried: Whether the batch was certainly tried before.
    """

    entry: float | None
    previous: float | None = None
    was_tried: bool = False


class Step(NamedTuple):
    """A step of a flow.

    Attributes:
        do: ``init``: take over the transactional id. ``look``: return the plan and the
            markers by shard. ``send``: begin a transaction and send the rows; return
            their number and digest. ``count``: return number and digest. ``commit``:
            commit the entry with the open transaction, or in a new one. ``note``: note
            beside the checkpoint that the batch is tried, since no older plan would
            prove it.
        shard: Whose id or marker; None: the driver's id, and its plan.
        entry: The marker or plan to commit.
    """

    do: Literal["init", "look", "send", "count", "commit", "note"]
    shard: int | None = None
    entry: Marker | Plan | None = None


class RefusedError(Exception):
    """Nothing is written, since what is written is not known; a command settles it."""


class SupersededError(Exception):
    """Another driver, or a later batch, has taken over; this copy ends."""


class ForeignError(Exception):
    """A group is not kafkaguard's own: its members or offsets are somebody else's."""


def encode(entry: Marker | Plan) -> str:
    """Encode an entry as the metadata of an offset, in at most 200 bytes."""
    return " ".join([_HEAD, type(entry).__name__, *map(str, entry)])


def decode(kind: type[_ENTRY], text: str) -> _ENTRY:
    """Decode the metadata of an offset.

    Raises:
        ForeignError: It is not of this kind.
    """
    values = text.removeprefix(f"{_HEAD} {kind.__name__} ").split(" ")
    types = kind.__annotations__.values()
    try:
        pairs = zip(values, types, strict=True)
        return kind._make(int(v) if "int" in str(t) else v for v, t in pairs)
    except ValueError:
        raise ForeignError(text) from None


def digest_of(sums: tuple[int, int]) -> str:
    """Return the digest of rows from the sums of their two hashes."""
    return "".join(f"{each % 2**_HALF:016x}" for each in sums)


def place_of(shard: int, width: int) -> tuple[int, int]:
    """Return the number of the group and the partition that have a shard's marker."""
    return divmod(shard, width)


def play(flow: Generator[Step, Any, _RESULT], make: Callable[[Step], Any]) -> _RESULT:
    """Make the steps of a flow; return its result."""
    answer = None
    while True:
        try:
            step = flow.send(answer)
        except StopIteration as end:
            result: _RESULT = end.value
            return result
        answer = make(step)


# --- a shard --------------------------------------------------------------------------


def write_shard(
    run: str, batch: int, shard: int, retention: float, now: Callable[[], float]
) -> Generator[Step, Any, bool]:
    """Write a shard once.

    Args:
        run: The run of the driver that has started this task.
        batch: The batch.
        shard: The shard.
        retention: How long brokers keep offsets, in seconds.
        now: The time in seconds since 1970.

    Returns:
        Whether it was written now; False: it was written before.

    Raises:
        RefusedError: It was written with other rows, or may have been written.
        SupersededError: This task is a copy that was left behind.
    """
    yield Step("init", shard)
    plan, markers = yield Step("look", shard)
    marker: Marker | None = markers.get(shard)
    if plan is None or (plan.run, plan.batch) != (run, batch):
        other = "no batch" if plan is None else f"batch {plan.batch} of run {plan.run}"
        raise SupersededError(f"another driver has taken over, which plans {other}")
    if marker is not None and marker.batch > batch:
        raise SupersededError(f"shard {shard} has written batch {marker.batch}")
    if why := _find_expired(
        plan, now() - plan.first, retention * SURE, markers, [shard]
    ):
        raise RefusedError(why)
    if marker is None or marker.batch < batch:
        rows, digest = yield Step("send", shard)
        mine = Marker(run, batch, rows, digest, int(now()))
        yield Step("commit", shard, mine)
        return True
    rows, digest = yield Step("count", shard)
    if marker.digest != ANY and (marker.rows, marker.digest) != (rows, digest):
        raise RefusedError(
            f"shard {shard} of batch {batch} was written with {marker.rows:,} rows "
            f"(digest {marker.digest}), and has {rows:,} rows now (digest {digest}): "
            "the rows differ from those of the first try"
        )
    return False


# --- the driver -----------------------------------------------------------------------


def plan_batch(
    wish: Plan,
    history: Callable[[], History] | None,
    retention: float,
    last: Plan | None = None,
) -> Generator[Step, Any, Plan]:
    """Plan a batch, before its tasks start.

    Args:
        wish: The plan if there is none yet.
        history: Returns what the checkpoint says; called only if there is no plan.
            None: the job is not a stream.
        retention: How long brokers keep offsets, in seconds.
        last: The plan that this driver has committed last, with a producer that is
            still its own.

    Returns:
        The plan that was committed.

    Raises:
        RefusedError: What is written of the batch is not known.
    """
    plan, markers = last, {}
    if last is None:
        yield Step("init")
    if last is None or last.batch >= wish.batch:
        plan, markers = yield Step("look")
    sure = retention * SURE
    why = _find_conflict(plan, wish, markers)
    if why is None and plan is not None and plan.batch == wish.batch:
        age = wish.time - plan.first
        why = _find_expired(plan, age, sure, markers, range(plan.shards))
        wish = plan._replace(
            run=wish.run, query=wish.query, content=wish.content, time=wish.time
        )
    elif plan is not None and plan.batch != NOTHING:
        wish = wish._replace(shards=plan.shards, width=plan.width)
    elif plan is None and why is None:
        facts = history() if history else History(0.0)
        is_known = last is not None or _latest(plan, markers) == wish.batch
        why = _find_lost(wish.batch, facts, sure, is_known or facts.was_tried)
    if why is not None:
        raise RefusedError(why)
    yield Step("commit", None, wish)
    if history is not None and (plan is None or plan.batch == wish.batch):
        yield Step("note")
    return wish


def _find_conflict(
    plan: Plan | None, wish: Plan, markers: Mapping[int, Marker]
) -> str | None:
    """Return why a batch does not follow what was written under its name."""
    batch = wish.batch
    if plan is not None and plan.batch != NOTHING:
        if ANY not in (plan.query, wish.query) and plan.query != wish.query:
            return (
                f"the name was used by another query ({plan.query}), or with another "
                "checkpoint: give each query its own name"
            )
        if plan.batch == batch and plan.content not in (ANY, wish.content):
            return (
                f"batch {batch} was planned with another topic or other columns: give "
                "each write its own name"
            )
    if (later := _latest(plan, markers)) > batch:
        return (
            f"batch {later} was written before batch {batch}: the checkpoint is older "
            "than the records, or the name was used before"
        )
    return None


def _latest(plan: Plan | None, markers: Mapping[int, Marker]) -> int:
    """Return the last batch that was planned, or that a shard has written."""
    return max(
        (each.batch for each in (plan, *markers.values()) if each), default=NOTHING
    )


def _find_expired(
    plan: Plan,
    age: float,
    sure: float,
    markers: Mapping[int, Marker],
    shards: Iterable[int],
) -> str | None:
    """Return why shards without a marker may have been written all the same."""
    missing = missing_of(plan.batch, markers, shards)
    if age < sure or not missing:
        return None
    return (
        f"batch {plan.batch} was first planned {_days(age)} ago, and brokers may have "
        f"deleted the markers of the shards without one: {_list(missing)}"
    )


def missing_of(
    batch: int, markers: Mapping[int, Marker], shards: Iterable[int]
) -> list[int]:
    """Return the shards of a batch that have no marker of it."""
    return sorted(
        set(shards) - {n for n, each in markers.items() if each.batch == batch}
    )


def _find_lost(
    batch: int, history: History, sure: float, was_tried: bool
) -> str | None:
    """Return why a batch without any plan may have been written all the same."""
    if was_tried:
        return (
            f"batch {batch} was tried before, and its plan is gone: brokers have "
            "deleted it, or the topic of the markers was made anew"
        )
    if history.entry is None:
        return (
            f"when batch {batch} was first planned is not known: its checkpoint cannot "
            "be read"
        )
    if history.entry >= sure:
        return (
            f"batch {batch} was first planned {_days(history.entry)} ago, and brokers "
            "may have deleted its markers"
        )
    if history.previous is not None and history.previous < sure:
        return (
            f"the batch before batch {batch} has no plan: the stream has written "
            "without exactly_once or under another name until now, or the topic of the "
            "markers was made anew"
        )
    return None


def _days(seconds: float) -> str:
    return f"{seconds / 86_400:.1f} days"


def _list(shards: Iterable[int]) -> str:
    return ", ".join(map(str, shards))


# --- the commands ---------------------------------------------------------------------


def settle(
    wish: Plan, shards: Iterable[int] | None = None
) -> Generator[Step, Any, Plan]:
    """Take shards of a batch as written, and the others as their markers say.

    With the batch :data:`NOTHING`, nothing counts as written: the name begins anew.

    The plan is first: a copy of a task that takes over its shard's id after this flow
    has, reads it and ends.

    Args:
        wish: The plan to commit. If there is none yet, it has the number of shards; 0:
            unknown.
        shards: The shards; None: all.

    Raises:
        RefusedError: A later batch was written, so the batches between would be written
            again; a shard is not one of the batch; or their number is not known.
    """
    yield Step("init")
    plan, markers = yield Step("look")
    if NOTHING < wish.batch < (later := _latest(plan, markers)):
        raise RefusedError(
            f"batch {later} was written after batch {wish.batch}, and would be written "
            "again: go back to its checkpoint, or forget the name"
        )
    count = (plan and plan.shards) or wish.shards
    if wish.batch == NOTHING:
        count = max([count, *(shard + 1 for shard in markers)])
    elif not count:
        raise RefusedError("no plan is left: say how many shards there are (--shards)")
    chosen = range(count) if shards is None else sorted(set(shards))
    if outside := [each for each in chosen if not 0 <= each < count]:
        raise RefusedError(f"there is no shard {_list(outside)}; there are {count}")
    new = wish._replace(shards=count, width=plan.width if plan else wish.width)
    yield Step("commit", None, new)
    for shard in chosen:
        yield Step("init", shard)
        yield Step("commit", shard, Marker(new.run, new.batch, 0, ANY, new.time))
    return new
