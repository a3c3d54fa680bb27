"""``kafkaguard explain``: the meaning of an error, and the right next step."""

from __future__ import annotations

import json
import sys
from itertools import product
from textwrap import fill, shorten
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from kafkaguard import errors
from kafkaguard._common.files import kind_of
from kafkaguard._common.text import plain
from kafkaguard._errors import for_code
from kafkaguard._errors.meanings import MEANINGS
from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.context import TopicFacts
from kafkaguard.cli.client_behaviour import Habits, habits_of, source
from kafkaguard.cli.group import Problem, request_name
from kafkaguard.cli.lookup import (
    NAMES,
    Finding,
    class_name,
    find_errors,
    nearest_name,
)
from kafkaguard.cli.output import PlainTable, console, styled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._errors.base import Verdict

# The contexts to try, simplest first, to find out what the verdict depends on.
_CONTEXTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {}),
    ("idempotent producer", {"idempotent": True}),
    ("producer that is not idempotent", {"idempotent": False}),
    ("in a transaction", {"transactional": True}),
    ("record without a key", {"null_key": True}),
    ("record with a key", {"null_key": False}),
    ("record alone in its batch", {"phase": "single"}),
    ("tiered topic", {"facts": TopicFacts(tiered=True)}),
    ("raised by the send call itself", {"phase": "enqueue"}),
    ("reported to error_cb", {"phase": "background"}),
    ("repeated, since the first answer was lost", {"phase": "repeated"}),
    ("asked by an administrator", {"phase": "admin"}),
    ("answer to an abort", {"phase": "abort"}),
)


def _complete(_: click.Context, __: click.Parameter, word: str) -> list[str]:
    """Return the names of errors that begin with a word."""
    return [name for name in NAMES if name.startswith(word.upper())]


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("error", nargs=-1, type=click.UNPROCESSED, shell_complete=_complete)
@click.option("--api", help="The request that was answered, such as Fetch.")
@click.option("--null-key/--key", default=None, help="Whether the record has no key.")
@click.option(
    "--idempotent/--not-idempotent",
    default=None,
    help="Whether the producer is idempotent.",
)
@click.option(
    "--transactional", is_flag=True, help="A client reported it in a transaction."
)
@click.option("--compacted", is_flag=True, help="The topic is compacted.")
@click.option("--tiered", is_flag=True, help="The topic has remote storage.")
@click.option("--topic", help="The topic, for policies with overrides by topic.")
@click.option("--policy", help="Show what this policy does: a preset or a file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(  # noqa: PLR0913 - one for each option
    error: tuple[str, ...],
    *,
    api: str | None,
    null_key: bool | None,
    idempotent: bool | None,
    transactional: bool,
    compacted: bool,
    tiered: bool,
    topic: str | None,
    policy: str | None,
    as_json: bool,
) -> None:
    """Explain ERROR: a code, a name, the text of an exception, or - for stdin.

    Examples: `kafkaguard explain 87`, `kafkaguard explain NOT_COORDINATOR --api
    OffsetCommit`, `kafkaguard explain - < traceback.txt`.
    """
    finding, *further = _find(_read_input(error))
    context: dict[str, Any] = {
        "api": request_name(api) or finding.api,
        "client": finding.client,
        "phase": finding.phase,
        "null_key": null_key,
        "idempotent": idempotent,
        "transactional": transactional,
        "facts": TopicFacts(compacted or None, tiered or None),
    }
    # In a transaction the code comes from a client, which has given up the request.
    subject = (
        finding.error_class() if transactional and finding.key else finding.subject
    )
    verdict = classify(subject, **context)
    others = list(_find_other_verdicts(subject, context))
    policy_text = (
        None
        if policy is None
        else _explain_policy(policy, verdict, finding, topic, context)
    )
    habits = habits_of(finding.error_class.code, context["api"])
    if as_json:
        explained = {
            **_as_dict(finding, verdict, others),
            "further": [_further_dict(each) for each in further],
            "clients": [{"api": h.api, **h.does} for h in habits],
            "clients_source": source(habits),
            "policy": policy_text,
        }
        click.echo(json.dumps(explained, indent=2))
    else:
        _print(finding, verdict, others, policy_text)
        _print_further(further)
        _print_habits(habits)


def _explain_policy(
    source: str,
    verdict: Verdict,
    finding: Finding,
    topic: str | None,
    context: dict[str, Any],
) -> str:
    """Return what a policy does with the error."""
    from kafkaguard._retries.machine import CallContext
    from kafkaguard_policies.advice.explain import explain_ruling
    from kafkaguard_policies.model.problems import PolicyError
    from kafkaguard_policies.reading.sources import load_policy

    try:
        policy = load_policy(source)
    except PolicyError as error:
        raise Problem(str(error)) from None
    code = finding.error_class.code
    return explain_ruling(policy, verdict, CallContext(topic=topic, **context), code)


def _read_input(words: tuple[str, ...]) -> str:
    """Return the argument, or the text on standard input."""
    if words and words != ("-",):
        return " ".join(words)
    return _decode_text(sys.stdin.buffer.read(_MOST_BYTES))


def _decode_text(content: bytes) -> str:
    """Decode text; refuse input that is mostly binary."""
    text = content.decode(errors="replace")
    if "\0" in text or text.count("\ufffd") > len(text) * _MAX_STRAY_SHARE:
        raise Problem(f"the input is not UTF-8 text: save it as UTF-8. {_USAGE}")
    return text


def _find(text: str) -> list[Finding]:
    findings = find_errors(text)
    if findings:
        return findings
    if not text.strip():
        raise Problem(f"there is nothing to explain. {_USAGE}")
    if len(text) < _MAX_NAME_LENGTH and kind_of(text.strip()) == "file":
        name = plain(text.strip())
        raise Problem(
            f"{name} is a file: `kafkaguard explain - < {name}` reads the text in it"
        )
    near = nearest_name(text.strip()) if len(text) < _MAX_NAME_LENGTH else None
    hint = f" Did you mean {near}?" if near else ""
    last = text.strip().splitlines()[-1].strip()
    excerpt = "".join(
        c if c.isprintable() else "?" for c in shorten(last, _EXCERPT_LENGTH)
    )
    raise Problem(f"no Kafka error found in {excerpt!r}.{hint} {_USAGE}")


#: Longer than any traceback; the rest of a longer input is not read.
_MOST_BYTES = 4_000_000
_MAX_NAME_LENGTH = 100
#: The width of the labels in the head.
_LABEL = 11
#: The width of the clients' names.
_CLIENT = 17
#: For more recorded requests than these, one must be named.
_MOST_REQUESTS = 3
#: How much of a text without a Kafka error is shown.
_EXCERPT_LENGTH = 100
#: The allowed share of invalid characters, such as in a log of another encoding.
_MAX_STRAY_SHARE = 0.1
_USAGE = (
    "Give a code (87), a name (INVALID_RECORD) or a text that holds one; "
    "`kafkaguard errors` lists all."
)


def _find_other_verdicts(
    subject: Any, context: dict[str, Any]
) -> Iterator[tuple[str, Verdict]]:
    """Find the contexts in which another rule decides."""
    rule_ids = {classify(subject, **context).rule.id}
    apis = [context["api"]] if context["api"] else [None, *_APIS]
    subjects = [("", subject)]
    if isinstance(subject, int):
        subjects.append(("raised by a client", for_code(subject)()))
    for (origin, each), (label, change), api in product(subjects, _CONTEXTS, apis):
        verdict = classify(each, **{**context, "api": api, **change})
        if verdict.rule.id not in rule_ids:
            rule_ids.add(verdict.rule.id)
            yield ", ".join(filter(None, (origin, api, label))), verdict


_APIS = (
    *("Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch"),
    *("TxnOffsetCommit", "InitProducerId", "EndTxn", "AddPartitionsToTxn"),
    *(
        "CreateTopics",
        "DeleteTopics",
        "ElectLeaders",
        "CreateDelegationToken",
        "Heartbeat",
    ),
)


def _as_dict(
    finding: Finding, verdict: Verdict, others: list[tuple[str, Verdict]]
) -> dict[str, Any]:
    cls = finding.error_class
    return {
        "code": cls.code,
        "name": cls.name,
        "meaning": _meaning(finding),
        "note": finding.note,
        "caution": _CAUTIONS.get(finding.client or ""),
        "class": class_name(cls),
        "families": _families(cls),
        "verdict": _verdict_dict(verdict),
        "depends": [{"when": when, **_verdict_dict(v)} for when, v in others],
    }


#: What a client's own error hides, and how to find out more.
_CAUTIONS = {
    "aiokafka": (
        "aiokafka raises UnknownError for every code that it does not know (63 of "
        "Kafka's 137, such as 87 INVALID_RECORD), so the broker may have answered "
        "another code. A frequent cause is a record without a key for a compacted "
        "topic. Guard the client (kafkaguard.guard), or look at the broker's log."
    ),
}


def _verdict_dict(verdict: Verdict) -> dict[str, Any]:
    return {
        "action": str(verdict.action),
        "retriable": verdict.retriable,
        "written": verdict.written,
        "error_class": class_name(verdict.error_class),
        "rule": verdict.rule.id,
        "sentence": verdict.rule.sentence,
        "scenario": verdict.rule.scenario,
        "source": verdict.rule.source,
    }


def _families(cls: type[errors.KafkaGuardError]) -> list[str]:
    bases = (c for c in cls.__mro__[1:] if issubclass(c, errors.KafkaGuardError))
    return [c.__name__ for c in bases if c.__name__ != cls.__name__]


def _meaning(finding: Finding) -> str:
    if isinstance(finding.key, int):
        unknown = "A code that Kafka 4.4 does not have."
        return (
            MEANINGS.get(finding.key, unknown) if finding.key else "There is no error."
        )
    return (finding.key.__doc__ or "").partition("\n")[0]


def _print(
    finding: Finding,
    verdict: Verdict,
    others: list[tuple[str, Verdict]],
    policy_text: str | None,
) -> None:
    cls = finding.error_class
    number = "" if cls.code is None else f" ({cls.code})"
    screen = console()
    families = " < ".join([class_name(cls), *_families(cls)])
    lines = [
        ("", _meaning(finding)),
        ("class", families),
        ("next step", f"{verdict.action}: {verdict.rule.sentence}"),
        ("written", str(verdict.written)),
        ("why", verdict.rule.scenario),
        ("rule", f"{verdict.rule.id} ({verdict.rule.source})"),
    ]
    if finding.client in _CAUTIONS:
        lines.insert(1, ("caution", _CAUTIONS[finding.client]))
    if finding.note is not None:
        lines.insert(1, ("shown", plain(finding.note)))
    if policy_text is not None:
        lines.append(("policy", plain(policy_text.removeprefix("policy "))))
    screen.print(Text.assemble(styled(cls.name, "bold"), number), soft_wrap=True)
    for label, text in lines:
        line = Text(_head(label, text, screen.width))
        if label == "next step":
            line.stylize("bold", _LABEL, _LABEL + len(verdict.action))
        screen.print(line, soft_wrap=True)
    if others:
        table = PlainTable(
            "When it is ...", "Next step", "Because", "Written", box=None
        )
        for when, other in others:
            table.add_row(when, str(other.action), other.rule.sentence, other.written)
        screen.print()
        screen.print(table)


def _head(label: str, text: str, width: int, wide: int = _LABEL) -> str:
    """Return a line of the head, wrapped beside its label."""
    start = f"{label:{wide}}" if label else ""
    return fill(
        f"{start}{text}",
        width,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _print_further(further: list[Finding]) -> None:
    """Print the other errors of a text that has several."""
    if not further:
        return
    table = PlainTable("Also in this text", "Next step", "Because", box=None)
    for finding in further:
        each = _further_dict(finding)
        code = "" if each["code"] is None else f" ({each['code']})"
        table.add_row(f"{each['name']}{code}", each["action"], each["sentence"])
    console().print()
    console().print(table)


def _further_dict(finding: Finding) -> dict[str, Any]:
    verdict = classify(finding.subject, phase=finding.phase)
    return {
        "code": finding.error_class.code,
        "name": finding.error_class.name,
        "action": str(verdict.action),
        "sentence": verdict.rule.sentence,
    }


def _print_habits(habits: list[Habits]) -> None:
    """Print how each client reacts to the error by itself."""
    if not habits:
        return
    screen = console()
    if len(habits) > _MOST_REQUESTS:
        names = ", ".join(str(one.api) for one in habits)
        text = f"--api says what each client does with it by itself: {names}"
        screen.print(f"\n{_head('', text, screen.width)}", soft_wrap=True)
        return
    for one in habits:
        where = f", as an answer to {one.api}" if one.api else ""
        screen.print(f"\nWhat each client does with it by itself{where}:")
        for client, does in one.does.items():
            line = _head(client, does, screen.width, _CLIENT)
            screen.print(line, soft_wrap=True)
    screen.print(_head("", f"({source(habits)})", screen.width), soft_wrap=True)
