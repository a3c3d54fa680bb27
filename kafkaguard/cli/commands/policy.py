"""``kafkaguard policy``: check, show, preview and compare retry policies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import yaml
from click.shell_completion import CompletionItem

from kafkaguard._errors.base import Action
from kafkaguard.cli.group import Problem, SuggestingGroup
from kafkaguard.cli.numbers import ROWS, RUNS
from kafkaguard.cli.output import PlainTable, console, say
from kafkaguard_adapters.policy_in_effect import policy_for
from kafkaguard_adapters.policy_uses import USES, given_settings
from kafkaguard_policies.advice.client_settings import DEFAULTS
from kafkaguard_policies.advice.ineffective_settings import find_doubts
from kafkaguard_policies.model.problems import PolicyError
from kafkaguard_policies.reading.schema import policy_schema
from kafkaguard_policies.reading.sources import (
    ENDINGS,
    load_policy,
    preset_text,
    presets,
)

if TYPE_CHECKING:
    from kafkaguard_policies.retry_policy import RetryPolicy

_WRONG_INPUT = Problem.exit_code
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _load(source: str) -> RetryPolicy:
    try:
        return load_policy(source)
    except PolicyError as error:
        raise Problem(str(error)) from None


def _complete(
    _: click.Context, __: click.Parameter, beginning: str
) -> list[CompletionItem]:
    """Propose presets; if none matches, let the shell propose files."""
    names = [name for name in presets() if name.startswith(beginning)]
    return [*map(CompletionItem, names)] or [CompletionItem(beginning, type="file")]


@click.group(cls=SuggestingGroup)
def policy() -> None:
    """Check, show, preview and compare retry policies.

    SOURCE is the name of a preset, a .yaml, .yml or .toml file, or env.
    """


@policy.command()
@click.argument("sources", nargs=-1, required=True, shell_complete=_complete)
@click.option(
    "--for",
    "client",
    type=click.Choice(list(DEFAULTS)),
    help="Show instead what each setting becomes for a producer of this client.",
)
@_JSON
@click.pass_context
def check(
    context: click.Context,
    sources: tuple[str, ...],
    client: str | None,
    *,
    as_json: bool,
) -> None:
    """Check each SOURCE, and list which of its settings each use obeys and ignores.

    Exit 2 if one of them cannot be used.
    """
    results = [_check_source(source, client) for source in sources]
    if as_json:
        click.echo(json.dumps(results, indent=2))
    else:
        for result in results:
            say(_verdict_line(result))
            if result["valid"]:
                table = _uses_table if client is None else _effect_table
                console().print(table(result["uses" if client is None else "becomes"]))
    context.exit(0 if all(result["valid"] for result in results) else _WRONG_INPUT)


def _check_source(source: str, client: str | None) -> dict[str, Any]:
    try:
        retry_policy = load_policy(source)
    except PolicyError as error:
        problems = [
            {
                "file": p.source or _file_of(error),
                "line": p.line,
                "path": list(p.path),
                "message": p.message,
                "text": str(p),
            }
            for p in error.problems
        ]
        return {"source": source, "valid": False, "problems": problems}
    settings = given_settings(retry_policy)
    becomes = {}
    if client is not None:
        becomes["becomes"] = policy_for(retry_policy, client).to_dict()["settings"]
    return {
        "source": source,
        "valid": True,
        "name": retry_policy.name,
        "policy_id": retry_policy.policy_id,
        "warnings": list(find_doubts(retry_policy)),
        "uses": {
            use: {
                "obeys": sorted(settings & obeyed),
                "ignores": sorted(settings - obeyed),
            }
            for use, obeyed in USES.items()
        },
        **becomes,
    }


def _file_of(error: PolicyError) -> str | None:
    """Return the file that cannot be used; None for presets and the environment."""
    return error.source if error.source.endswith(ENDINGS) else None


def _uses_table(uses: dict[str, dict[str, list[str]]]) -> PlainTable:
    """List the settings of the policy by use."""
    table = PlainTable("Use", "Obeys", "Ignores", box=None)
    for use, settings in uses.items():
        cells = (", ".join(settings[each]) or "nothing" for each in settings)
        table.add_row(use, *cells)
    return table


def _effect_table(settings: list[dict[str, str]]) -> PlainTable:
    """List what each setting becomes for a producer that the guard builds."""
    table = PlainTable("Setting", "Value", "Becomes", "Obeyed by", box=None)
    for setting in settings:
        table.add_row(*setting.values())
    return table


def _verdict_line(result: dict[str, Any]) -> str:
    if result["valid"]:
        warnings = "".join(f"\n  warning: {text}" for text in result["warnings"])
        name = f"{result['name']}, {result['policy_id']}"
        return f"{result['source']}: good ({name}){warnings}"
    problems = "".join(f"\n  {problem['text']}" for problem in result["problems"])
    return f"{result['source']}: cannot be used{problems}"


@policy.command()
@click.argument("source", required=False, shell_complete=_complete)
@_JSON
def show(source: str | None, *, as_json: bool) -> None:
    """Print all settings of SOURCE; without SOURCE, list the presets.

    The output is a policy file, with the policy's id in a comment. With --json the id
    is the key policy_id, which a policy file cannot have.
    """
    if source is None:
        _list_presets(as_json=as_json)
    elif not as_json and source in presets():
        click.echo(preset_text(source).rstrip())
    else:
        retry_policy = _load(source)
        click.echo(_as_json(retry_policy) if as_json else _as_file(retry_policy))


def _as_json(retry_policy: RetryPolicy) -> str:
    content = {
        **retry_policy.model_dump(mode="json"),
        "policy_id": retry_policy.policy_id,
    }
    return json.dumps(content, indent=2)


def _as_file(retry_policy: RetryPolicy) -> str:
    """Write a policy as a file that loads as the same policy."""
    content = retry_policy.model_dump(mode="json")
    letters = retry_policy.dead_letter.model_dump(mode="json", exclude={"limit"})
    limit = retry_policy.dead_letter.limit
    letters["limit"] = limit and limit.model_dump(mode="json", exclude_none=True)
    content["dead_letter"] = _with_words(letters)
    content["handler"] = _with_words(content["handler"])
    content["overrides"] = [
        each.model_dump(mode="json", exclude_defaults=True)
        for each in retry_policy.overrides
    ]
    settings = yaml.safe_dump(_with_words(content), sort_keys=False).rstrip()
    return f"# policy_id: {retry_policy.policy_id}\n{settings}"


def _with_words(settings: dict[str, Any]) -> dict[str, Any]:
    """Write ``none`` for each setting that is absent."""
    return {k: "none" if value is None else value for k, value in settings.items()}


def _list_presets(*, as_json: bool) -> None:
    policies = [load_policy(name) for name in presets()]
    if as_json:
        rows = [{"name": p.name, "description": p.description} for p in policies]
        click.echo(json.dumps(rows, indent=2))
        return
    table = PlainTable("Preset", "For", box=None)
    for one in policies:
        table.add_row(one.name, one.description)
    console().print(table)


@policy.command()
@click.argument("source", shell_complete=_complete)
@click.option(
    "--action", default="RETRY", help="The verdict of the failure, such as WAIT."
)
@click.option("--seed", default=0, help="Seed of the random waits.")
@click.option("--runs", type=RUNS, default=1_000, help="Number of random schedules.")
@click.option("--limit", type=ROWS, default=50, help="Number of waits to show.")
@_JSON
def preview(
    source: str,
    *,
    action: str,
    seed: int,
    runs: int,
    limit: int,
    as_json: bool,
) -> None:
    """Print the waits of SOURCE: expected, 90 % range and worst case."""
    if action.upper() not in Action.__members__:
        raise Problem(f"no action {action!r}; there are {', '.join(Action)}")
    try:
        retry_policy = _load(source)
        waits = retry_policy.preview(
            action=Action(action.upper()), seed=seed, runs=runs, limit=limit
        )
    except ValueError as error:
        raise Problem(str(error)) from None
    if as_json:
        data = {**waits.to_dict(), "warnings": find_doubts(retry_policy)}
        click.echo(json.dumps(data, indent=2))
    else:
        say(waits)
        for text in find_doubts(retry_policy):
            say(f"warning: {text}")


@policy.command()
@_JSON
def schema(*, as_json: bool) -> None:  # noqa: ARG001 - it is JSON in any case
    """Print the JSON Schema of policy files, for editors."""
    click.echo(json.dumps(policy_schema(), indent=2))


@policy.command()
@click.argument("old", shell_complete=_complete)
@click.argument("new", shell_complete=_complete)
@_JSON
@click.pass_context
def diff(context: click.Context, old: str, new: str, *, as_json: bool) -> None:
    """Compare two policies setting by setting; exit 1 if they differ."""
    before, after = (
        dict(_flatten(_load(source).model_dump(mode="json"), ()))
        for source in (old, new)
    )
    changes = {
        path: {"old": before.get(path), "new": after.get(path)}
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path) and path not in {"name", "description"}
    }
    if as_json:
        click.echo(json.dumps(changes, indent=2))
    else:
        for path, values in changes.items():
            say(f"{path}: {json.dumps(values['old'])} -> {json.dumps(values['new'])}")
    context.exit(bool(changes))


def _flatten(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flatten(inner, (*path, str(key)))
    else:
        yield ".".join(path), value
