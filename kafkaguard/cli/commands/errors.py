"""``kafkaguard errors``: the table of all codes."""

from __future__ import annotations

import json
from typing import Literal

import click

from kafkaguard._errors.base import Action
from kafkaguard._errors.generated import BY_CODE, KAFKA_VERSION, RETRIABLE_CODES
from kafkaguard._verdicts.classification import classify
from kafkaguard.cli.group import request_name
from kafkaguard.cli.lookup import class_name
from kafkaguard.cli.output import PlainTable, console


@click.command()
@click.option(
    "--api", help="Treat the codes as answers to this request, such as Fetch."
)
@click.option(
    "--action",
    type=click.Choice([str(action) for action in Action], case_sensitive=False),
    help="Only codes with this next step.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def errors(*, api: str | None, action: str | None, as_json: bool) -> None:
    """List Kafka's error codes with the right next step for each."""
    rows = []
    for code, cls in sorted(BY_CODE.items()):
        verdict = classify(code, api=request_name(api))
        if action is None or verdict.action == action.upper():
            rows.append(
                {
                    "code": code,
                    "name": cls.name,
                    "class": class_name(cls),
                    "retriable_in_java": code in RETRIABLE_CODES,
                    "action": str(verdict.action),
                    "written": verdict.written,
                    "rule": verdict.rule.id,
                }
            )
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = PlainTable(
        title=f"{len(rows)} error codes of Kafka {KAFKA_VERSION}",
        box=None,
        pad_edge=False,
    )
    for heading in ("Code", "Name", "Java", "Next step", "Rule"):
        justify: Literal["left", "right"] = "right" if heading == "Code" else "left"
        table.add_column(heading, justify=justify)
    table.leave_out("Rule", "Java")
    for row in rows:
        table.add_row(
            str(row["code"]),
            str(row["name"]),
            "retries" if row["retriable_in_java"] else "",
            str(row["action"]),
            str(row["rule"]),
        )
    console().print(table)
