"""Which access rights each use needs. The page and the tests read the same table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sphinx.util.docutils import SphinxDirective
from tables import parse, table

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx


@dataclass(frozen=True, slots=True)
class Use:
    """A use of Kafka and the rights that it needs.

    Attributes:
        title: What the user does.
        task: The function of ``tests/docs/test_rights.py`` that does it.
        grants: Operation, kind of resource, and its name; ``topic``, ``letters``,
            ``group`` and ``transaction`` stand for the user's own.
        without: What happens where the last right is missing.
    """

    title: str
    task: str
    grants: tuple[tuple[str, str, str], ...]
    without: str


_WRITE = ("WRITE", "TOPIC", "topic")
_SETTINGS = ("DESCRIBE_CONFIGS", "TOPIC", "topic")
_DESCRIBE = ("DESCRIBE", "TOPIC", "topic")
_READ = ("READ", "TOPIC", "topic")
_GROUP = ("DESCRIBE", "GROUP", "group")

USES = (
    Use(
        "send with a guarded producer",
        "send",
        (_WRITE, _SETTINGS),
        "the guard cannot look up `cleanup.policy` and `max.message.bytes`: it sends "
        "every record, warns once, and the broker decides. "
        "`topics={'t': TopicFacts(compacted=True)}` declares the same",
    ),
    Use(
        "set rejected records aside",
        "dead_letter",
        (_WRITE, _SETTINGS, ("WRITE", "TOPIC", "letters")),
        "the record fails with its own error, which says so",
    ),
    Use(
        "send in transactions",
        "transaction",
        (_WRITE, _SETTINGS, ("WRITE", "TRANSACTIONAL_ID", "transaction")),
        "the first call of the transaction is refused (CONFIGURE)",
    ),
    Use(
        "read with a guarded consumer",
        "consume",
        (("READ", "GROUP", "group"), _READ),
        "polling raises the refusal. `DESCRIBE_CONFIGS` on the topic lets the guard "
        "recognise remote storage that is not ready",
    ),
    Use(
        "handle records with `process()`",
        "process",
        (("READ", "GROUP", "group"), _READ, ("WRITE", "TOPIC", "letters")),
        "`process()` refuses to begin, and names the topic of dead letters",
    ),
    Use(
        "handle dead letters again",
        "handle_letters",
        (
            ("READ", "TOPIC", "letters"),
            ("WRITE", "TOPIC", "letters"),
            ("READ", "GROUP", "group.letters"),
        ),
        "the run ends with the refusal",
    ),
    Use(
        "measure the lag of a named group",
        "lag",
        (_GROUP, _DESCRIBE),
        "the topic is missing in the answer, and `report.complete` is False",
    ),
    Use(
        "measure the lag of all groups",
        "lag_of_all",
        (
            ("DESCRIBE", "CLUSTER", "kafka-cluster"),
            ("DESCRIBE", "GROUP", "*"),
            _DESCRIBE,
        ),
        "topics that the user may not describe are missing, and `report.complete` is "
        "False",
    ),
    Use(
        "look up offsets",
        "offsets",
        (_DESCRIBE,),
        "each partition has the refusal",
    ),
    Use(
        "list log directories",
        "log_dirs",
        (("DESCRIBE", "CLUSTER", "kafka-cluster"),),
        "each broker has `ClusterAuthorizationFailedError`",
    ),
)


class RightsTable(SphinxDirective):
    """A row for each use."""

    def run(self) -> list[nodes.Node]:
        """Draw it."""
        rows = (
            (
                use.title,
                "<br>".join(
                    f"`{operation}` on {_resource(kind, name)}"
                    for operation, kind, name in use.grants
                ),
                use.without,
            )
            for use in USES
        )
        headings = ("To", "a user needs", "Without the last right")
        return parse(self, table(headings, rows))


def _resource(kind: str, name: str) -> str:
    if kind == "CLUSTER":
        return "the cluster"
    if name == "*":
        return f"every {kind.lower()}"
    words = {
        "topic": "the topic",
        "letters": "the dead-letter topic",
        "group": "the group",
        "group.letters": "the group `<group>.letters`",
        "transaction": "the transactional id",
    }
    return words[name]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("rights-table", RightsTable)
    return {"parallel_read_safe": True}
