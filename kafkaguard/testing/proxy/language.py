"""The fault language: ``proxy.on("Produce", topic="t").fail("NOT_LEADER...")``.

First select requests (:class:`SelectedRequests`), then say what happens to them.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any

from kafkaguard._common.arguments import flag, whole_number
from kafkaguard._common.closest import did_you_mean
from kafkaguard._common.public import public
from kafkaguard._errors.generated import BY_CODE
from kafkaguard._verdicts.apis import API_KEYS, API_NAMES
from kafkaguard.testing.proxy import actions
from kafkaguard.testing.proxy.actions import CountedFault, Fault
from kafkaguard.testing.proxy.matching import Match
from kafkaguard.testing.proxy.places import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkaguard.testing.proxy.matching import Request


@public("kafkaguard.testing")
class FaultSpecError(ValueError):
    """A fault with an unknown word; the text has the word and the closest right one."""


def unknown(kind: str, word: object, right: Iterable[str]) -> FaultSpecError:
    """Return the error about an unknown word, with the closest right one."""
    choices = sorted(right)
    hint = did_you_mean(str(word), choices) or f"; there are: {', '.join(choices)}"
    return FaultSpecError(f"unknown {kind} {word!r}{hint}")


def api_key(name: str) -> int:
    """Return the key of an API.

    Raises:
        FaultSpecError: Kafka has no API of this name.
    """
    if name not in API_KEYS:
        raise unknown("API", name, API_KEYS)
    return API_KEYS[name]


def error_code(code: int | str) -> int:
    """Return the number of an error code; any number is allowed.

    Raises:
        FaultSpecError: Kafka has no error of this name.
    """
    if isinstance(code, int) and not isinstance(code, bool):
        return _in_range(code)
    numbers = {cls.name: number for number, cls in BY_CODE.items()}
    if code not in numbers:
        raise unknown("error code", code, map(str, numbers))
    return numbers[code]


def _in_range(code: int) -> int:
    lowest, highest = -32768, 32767
    if lowest <= code <= highest:
        return code
    raise FaultSpecError(f"error code {code} does not fit into the 16 bits on the wire")


class SelectedRequests:
    """Selected requests; the methods say what happens to them.

    Each method but ``cap`` and ``hide`` has ``times``, the limit of how often it
    happens (default: no limit; for ``down``, once). It returns the :class:`Fault`,
    which counts how often it happened (``fired``), can be removed, and is a context
    manager. If a method has ``written``, this says whether the broker executes the
    request before the client gets the error or no answer. Each method raises
    ``FaultSpecError`` for a value that it cannot use.

    Args:
        add: Adds a fault to the proxy.
        match: Selects the requests.
        skip: How many of them pass first.
        once: Whether only one of them is selected.
        rate: The share of them, 0 to 1.
        seed: Makes the choice of that share repeatable.
    """

    def __init__(
        self,
        add: Callable[[CountedFault], Fault],
        match: Match,
        *,
        skip: int = 0,
        once: bool = False,
        rate: float = 1.0,
        seed: int | None = None,
    ) -> None:
        self._add = add
        self._match = match
        self._skip = skip
        self._once = once
        self._rate = rate
        self._seed = seed

    def fail(
        self,
        code: int | str,
        *,
        times: int | None = None,
        written: bool = False,
        at: str | None = None,
        message: str | None = None,
        records: Iterable[int] = (),
    ) -> Fault:
        """Answer with an error code, at the place where a broker sets it for this API.

        Args:
            code: Kafka's name, such as ``"NOT_LEADER_OR_FOLLOWER"``, or any number.
            times: How often at most.
            written: Whether the broker executes the request first. If not, it never
                receives the refused items. For requests that only read, a client sees
                no difference.
            at: Another place, if the API's answer has it: ``"top"``, ``"group"``,
                ``"topic"``, ``"partition"``, ``"resource"`` ...
            message: The broker's text, if the answer has a field for it.
            records: Produce only: the indexes of the records to blame in the batch.

        Raises:
            FaultSpecError: A word is unknown, or the API's answer has no such place.
        """
        self._check_place(at)
        indexes = tuple(_whole("records", each, 0) for each in records)
        fields = {"error_message": message, "record_errors": indexes or None}
        action = actions.fail(
            error_code(code),
            {name: value for name, value in fields.items() if value is not None},
            written=_flag("written", written),
            at=at,
        )
        return self._set(action, times)

    def delay(
        self, seconds: float, *, times: int | None = None, before: bool = False
    ) -> Fault:
        """Delay the answer, or with ``before`` the request. Delays add up."""
        action = actions.delay(_seconds(seconds), before=_flag("before", before))
        return self._set(action, times)

    def throttle(self, seconds: float, *, times: int | None = None) -> Fault:
        """Set ``throttle_time_ms``, as for a client over its quota (KIP-219)."""
        return self._set(actions.throttle(_seconds(seconds)), times)

    def drop(self, *, times: int | None = None, written: bool = True) -> Fault:
        """Send no answer; the connection stays open, but gets no more answers."""
        return self._break_off("drop", times, written=written)

    def close(self, *, times: int | None = None, written: bool = False) -> Fault:
        """Close the connection instead of answering."""
        return self._break_off("close", times, written=written)

    def reset(self, *, times: int | None = None, written: bool = False) -> Fault:
        """Reset the connection (TCP RST) instead of answering."""
        return self._break_off("reset", times, written=written)

    def cut(self, *, keep: int | None = None, times: int | None = None) -> Fault:
        """Send the first ``keep`` bytes of the answer (default: half), then close."""
        if keep is not None:
            _whole("keep", keep, 0)
        return self._break_off("cut", times, damage=actions.cut(keep))

    def garble(self, *, times: int | None = None) -> Fault:
        """Send noise of the answer's length; the seed makes it repeatable."""
        return self._break_off("garble", times, damage=actions.garble(self._seed))

    def empty(self, *, times: int | None = None, written: bool = True) -> Fault:
        """Answer without items and without an error."""
        return self._set(actions.empty(written=_flag("written", written)), times)

    def edit(
        self, function: Callable[[Any], None], *, times: int | None = None
    ) -> Fault:
        """Let a function change the decoded answer: the fields of Kafka's schema."""
        return self._set(actions.edit(function), times)

    def down(self, seconds: float, *, times: int | None = 1) -> Fault:
        """Make the broker unreachable: close its connections and accept none."""
        return self._set(actions.take_down(_seconds(seconds)), times)

    def cap(self, max_version: int, *, min_version: int = 0) -> Fault:
        """Offer no version above (or below) a limit, like an older (or newer) broker.

        A request in another version ends its connection, as at a real broker.
        """
        lowest = _whole("min_version", min_version)
        return self._narrow(
            actions.limit_versions(lowest, _whole("max_version", max_version))
        )

    def hide(self) -> Fault:
        """Do not offer the API, like a broker that does not have it."""
        return self._narrow(actions.limit_versions(0, -1))

    def _narrow(self, action: actions.Action) -> Fault:
        if self._match.api_keys is None:
            raise FaultSpecError("cap() and hide() need one API: name it")
        return self._set(action, None)

    def _break_off(
        self,
        breakage: actions.Breakage,
        times: int | None,
        *,
        written: bool = True,
        damage: Callable[[bytes], bytes] | None = None,
    ) -> Fault:
        is_written = _flag("written", written)
        action = actions.break_off(breakage, written=is_written, damage=damage)
        return self._set(action, times)

    def _set(self, action: actions.Action, times: int | None) -> Fault:
        if times is not None:
            _whole("times", times, 1)
        return self._add(
            CountedFault(
                self._match,
                action,
                times=1 if self._once else times,
                skip=self._skip,
                rate=self._rate,
                seed=self._seed,
            )
        )

    def _check_place(self, at: str | None) -> None:
        for key in self._match.api_keys or ():
            places = kinds(key)
            if not places:
                raise FaultSpecError(
                    f"the proxy does not know what an answer to {API_NAMES[key]} looks "
                    "like: it can be delayed, dropped or cut off, but not failed"
                )
            if at is not None and at not in places:
                raise unknown(f"place in {API_NAMES[key]}", at, places)


def when(  # noqa: PLR0913 - each way to choose a request
    add: Callable[[CountedFault], Fault],
    api: str | Iterable[str] | None = None,
    *,
    topic: str | None = None,
    partition: int | None = None,
    broker: int | None = None,
    client_id: str | None = None,
    nth: int | None = None,
    skip: int = 0,
    rate: float = 1.0,
    seed: int | None = None,
    where: Callable[[Request], bool] | None = None,
) -> SelectedRequests:
    """Select requests; see :meth:`kafkaguard.testing.FaultProxy.on`."""
    if not 0 < _number("rate", rate) <= 1:
        raise FaultSpecError(f"rate={rate}: the share of requests is in (0, 1]")
    _whole("skip", skip, 0)
    for name, number in (("partition", partition), ("broker", broker), ("seed", seed)):
        if number is not None:
            _whole(name, number)
    for name, text in (("topic", topic), ("client_id", client_id)):
        if not isinstance(text, str | None):
            raise FaultSpecError(f"{name} takes text, not {type(text).__name__}")
    if nth is not None:
        _whole("nth", nth, 1)
    api_names = [api] if isinstance(api, str) else api
    keys = None if api_names is None else frozenset(map(api_key, api_names))
    match = Match(keys, topic, partition, broker, client_id, where)
    skip = skip if nth is None else nth - 1
    return SelectedRequests(
        add, match, skip=skip, once=nth is not None, rate=rate, seed=seed
    )


def _seconds(value: Any) -> float:
    number = _number("seconds", value)
    if not 0 <= number < math.inf:
        raise FaultSpecError(f"{value} seconds: from 0 on, and with an end")
    return number


def _number(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        kind = type(value).__name__
        raise FaultSpecError(f"{name} takes a number (int or float), not {kind}")
    return float(value)


def _flag(name: str, value: Any) -> bool:
    return bool(_check(flag, name, value))


def _whole(name: str, value: Any, lowest: int = -(2**63)) -> int:
    return int(_check(whole_number, name, value, lowest))


def _check(check: Callable[..., Any], *arguments: Any) -> Any:
    """Check an argument; raise its error as a ``FaultSpecError``."""
    try:
        return check(*arguments)
    except (TypeError, ValueError) as error:
        raise FaultSpecError(str(error)) from None
