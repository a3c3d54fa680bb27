"""``classify``: from an answer and its context to a verdict, by look-up."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, Any, get_args

from kafkaguard import _errors as e
from kafkaguard._common.arguments import flag, known_flag, wrong_type
from kafkaguard._errors.base import RETRIABLE_ACTIONS, Verdict
from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard._verdicts.context import Phase, TopicFacts
from kafkaguard._verdicts.request_names import no_such_request
from kafkaguard._verdicts.rules import RULES, Rule
from kafkaguard._verdicts.signals import IMPLIED, REPORTED, quick_signal, signal_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_PHASES = frozenset(get_args(Phase))
_NO_FACTS = TopicFacts()
#: A context without null_key, facts, idempotent, transactional and phase.
_NOTHING_MORE = (None, None, None, False, None)

#: Ready verdicts by everything that they depend on. The context comes from a small set
#: of values, and the codes from 16 bits; the bound is for callers who make them up.
_MEMO: dict[Any, Verdict] = {}
_MEMO_LIMIT = 100_000
_INTERNED: dict[tuple[str, Any], Verdict] = {}


def classify(
    error: Any,
    *,
    api: str | None = None,
    client: str | None = None,
    null_key: bool | None = None,
    facts: TopicFacts | None = None,
    idempotent: bool | None = None,
    transactional: bool = False,
    phase: Phase | None = None,
) -> Verdict:
    """Return what to do about an answer of a broker or an error of a client.

    The result depends on the arguments only; verdicts are cached. Omit what you do not
    know: then the more costly case is assumed.

    Args:
        error: A code (int) from an answer; or an exception of kafka-python,
            confluent-kafka, aiokafka, kafkaguard or Python, or a
            ``confluent_kafka.KafkaError``, which mean that the client has given up on
            the request. If the cause of an exception says more, the cause decides. For
            an exception group, its most severe member decides. The verdict that an
            exception of kafkaguard carries stands, unless you say more than its
            ``api`` and ``client``.
        api: The request that was answered, by its Kafka name (``"Produce"``). Default:
            unknown; for an exception of kafkaguard, its ``api``.
        client: The library that reported it. Default: the one of the exception.
        null_key: Whether the record has no key. Default: unknown.
        facts: Facts about the topic. Default: none.
        idempotent: Whether the producer is idempotent. Default: unknown, which counts
            as False.
        transactional: Whether a transaction was open. Default: False.
        phase: ``"enqueue"``: the client raised it before it took the record.
            ``"single"``: the answer is about this record only. ``"background"``: the
            client reported it to ``error_cb``. ``"commit"``, ``"abort"``: the end of a
            transaction (``"EndTxn"``). ``"repeated"``: the request was repeated,
            because it is unknown whether the first one was carried out. ``"admin"``:
            the request of an administrator, who is not a member of the group. Default:
            an ordinary answer.

    Returns:
        The verdict; the same object for the same decision.

    Raises:
        TypeError: ``error`` is neither a code nor an exception, or another argument
            has the wrong type.
        ValueError: Kafka has no request named ``api``, or there is no such ``phase``.
    """
    if error.__class__ is int:
        signal, reporter, hint = error, None, None
    elif parts := quick_signal(error):
        signal, reporter, hint = parts
    else:
        context = (api, null_key, facts, idempotent, transactional, phase)
        return _classify_exception(error, client, context)
    key = (
        signal,
        client or reporter,
        hint,
        api,
        null_key,
        facts,
        idempotent,
        transactional,
        phase,
    )
    try:
        return _MEMO.get(key) or _decide(key)
    except TypeError:
        _check_facts(facts)
        raise


_Context = tuple[
    str | None, bool | None, TopicFacts | None, bool | None, bool, Phase | None
]
_Key = tuple[
    Any,
    str | None,
    str | None,
    str | None,
    bool | None,
    TopicFacts | None,
    bool | None,
    bool,
    Phase | None,
]


def _classify_exception(error: Any, client: str | None, context: _Context) -> Verdict:
    """Judge an exception whose class alone does not say everything."""
    if isinstance(error, e.KafkaGuardError):
        _check_facts(context[2])
        if error.given_verdict is not None and not _says_more(context, error):
            return error.given_verdict
        context = _with_own_facts(error, context)
        if error.code is not None and error.code >= -1:
            own = (error.code, client or error.client, REPORTED, *context)
            return _MEMO.get(own) or _decide(own)
    elif isinstance(error, BaseExceptionGroup):
        # A group may be tried again only if each of its members may.
        verdicts = [_classify_exception(m, client, context) for m in _members(error)]
        return max(verdicts, key=lambda verdict: verdict.action.severity)
    elif hasattr(error, "__index__") and not isinstance(error, bool):
        return _classify_code(index(error), client, context)
    signal = signal_of(error)
    if signal is None:
        raise TypeError(
            f"classify() takes an error code, an exception or a KafkaError, not "
            f"{error!r}; for a name use errors.for_name(name).code"
        )
    _check_facts(context[2])
    key = (signal.key, client or signal.client, signal.flag, *context)
    return _MEMO.get(key) or _decide(key)


def _classify_code(code: int, client: str | None, context: _Context) -> Verdict:
    """Judge a code that is a number without being a plain int, as an IntEnum."""
    return _decide((code, client, None, *context))


def _members(group: BaseExceptionGroup[Any]) -> Iterator[Any]:
    """Return the exceptions of a group and of the groups in it, however deep."""
    open_groups = [group]
    while open_groups:
        for member in open_groups.pop().exceptions:
            if isinstance(member, BaseExceptionGroup):
                open_groups.append(member)
            else:
                yield member


def _says_more(context: _Context, error: e.KafkaGuardError) -> bool:
    """Return whether the caller knows what the giver of an error's verdict did not."""
    api, *further = context
    _check(api, None)
    is_other = api is not None and error.api is not None and api != error.api
    return is_other or tuple(further) != _NOTHING_MORE


def _with_own_facts(error: e.KafkaGuardError, context: _Context) -> _Context:
    """Add what one of our own exceptions carries or implies by its class."""
    api, null_key, facts, *rest = context
    cls = type(error)
    for name, value in _implied_by(cls):  # type: ignore[arg-type]  # takes the instances' __hash__ for the class's
        if name == "null_key":
            null_key = value
        else:
            facts = replace(facts or _NO_FACTS, **{name: value})
    return (api or error.api, null_key, facts, *rest)  # type: ignore[return-value]  # rest is not seen as a tuple of known length


@lru_cache(1_000)
def _implied_by(cls: type) -> tuple[tuple[str, bool], ...]:
    return tuple(fact for parent in cls.__mro__ for fact in IMPLIED.get(parent, ()))


def _decide(key: _Key) -> Verdict:
    """Find the rule for a combination met for the first time, and remember it."""
    signal, client, hint, api, null_key, facts, idempotent, transactional, phase = key
    _check(api, phase)
    _check_types(client, null_key, idempotent, transactional)
    _check_facts(facts)
    if api is None and phase in ("commit", "abort"):
        api = "EndTxn"
    code = signal if isinstance(signal, int) else None
    cls = signal if code is None else e.for_code(code)
    topic_facts = facts or _NO_FACTS
    situation = {
        "client": client,
        "flag": hint,
        "null_key": null_key,
        "compacted": topic_facts.compacted,
        "tiered": topic_facts.tiered,
        "idempotent": idempotent,
        "transactional": transactional,
        "phase": phase,
    }
    rule = next(r for r in RULES if r.matches(code, cls, api, situation))
    verdict = _intern(rule, rule.error_class or cls)
    if len(_MEMO) < _MEMO_LIMIT:
        _MEMO[key] = verdict
    return verdict


def _check(api: str | None, phase: str | None) -> None:
    if api is not None and api not in API_KEYS:
        raise ValueError(no_such_request(api))
    if phase is not None and phase not in _PHASES:
        allowed = ", ".join(sorted(_PHASES))
        raise ValueError(f"there is no phase {phase!r}; the phases are {allowed}")


def _check_types(
    client: Any, null_key: Any, idempotent: Any, transactional: Any
) -> None:
    if client is not None and not isinstance(client, str):
        raise wrong_type("classify(): client", "the name of a client (str)", client)
    known_flag("classify(): null_key", null_key)
    known_flag("classify(): idempotent", idempotent)
    flag("classify(): transactional", transactional)


def _check_facts(facts: Any) -> None:
    if not isinstance(facts, TopicFacts | None):
        raise TypeError(
            "classify(): facts takes TopicFacts(compacted=..., tiered=...), "
            f"not {facts!r}"
        )


def _intern(rule: Rule, error_class: type[e.KafkaGuardError]) -> Verdict:
    key = (rule.info.id, error_class)
    if key not in _INTERNED:
        retriable = rule.action in RETRIABLE_ACTIONS
        _INTERNED[key] = Verdict(
            rule.action, retriable, rule.written, error_class, rule.info
        )
    return _INTERNED[key]
