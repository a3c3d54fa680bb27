"""Checks of transactions, and of the settings of the client."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from kafkaguard._doctor.facts import number_of
from kafkaguard._doctor.findings import BAD, RISKY, Finding, not_judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._doctor.facts import Facts

#: An open transaction counts as old after so many seconds.
OLD_S = 60.0
#: Seconds of an outage that a producer should outlast: a broker's restart.
_OUTAGE_S = 30


def check_transactions(facts: Facts) -> Iterator[Finding]:
    """No transaction holds readers up."""
    report = facts.looks[-1].transactions if facts.looks else None
    if report is None:
        yield not_judged(
            "transactions", "cluster", "the brokers cannot list transactions (KIP-664)"
        )
        return
    for error in report.errors:
        yield not_judged("transactions", "cluster", str(error))
    for one in report.transactions:
        age = one.age(report.taken_at)
        held = sum(one.blocked.values())
        where = ", ".join(map(str, one.partitions)) or "no partition yet"
        if one.is_hanging or (age is not None and age > OLD_S):
            yield Finding(
                "transaction-hanging" if one.is_hanging else "transaction-old",
                BAD if one.is_hanging else RISKY,
                f"transaction of {one.name}",
                f"{one.state}, {age or 0:,.0f} s, {where}, holds up {held:,} offsets",
                "readers with isolation.level=read_committed get nothing behind it",
                "abort it if its producer is gone; otherwise wait for its time limit",
                shlex.join(
                    [
                        *("kafkaguard", "txn", "abort", "-b", facts.bootstrap, "--yes"),
                        *("--", one.transactional_id or str(one.producer_id)),
                    ]
                ),
            )


def check_fencing(facts: Facts) -> Iterator[Finding]:
    """No two producers share a transactional id."""
    epochs: dict[str, set[int]] = {}
    for look in facts.looks:
        for one in look.transactions.transactions if look.transactions else ():
            if one.transactional_id is not None:
                epochs.setdefault(one.transactional_id, set()).add(one.epoch)
    for name, seen in sorted(epochs.items()):
        if len(seen) > 1:
            yield Finding(
                "transactional-id-shared",
                RISKY,
                f"transactional id {name}",
                f"its epoch changed {len(seen) - 1} times between the looks",
                "two producers with one id fence each other, and abort each other's "
                "transactions",
                "give each producer its own transactional.id",
            )


def check_transaction_timeout(facts: Facts) -> Iterator[Finding]:
    """The brokers allow the client's time limit of transactions."""
    most = facts.broker_setting("transaction.max.timeout.ms")
    ours = number_of(facts, "transaction.timeout.ms")
    if most is not None and "transactional.id" in facts.settings and ours > int(most):
        yield Finding(
            "transaction-timeout-refused",
            BAD,
            "setting transaction.timeout.ms",
            f"it is {ours:,} ms, and transaction.max.timeout.ms of the brokers "
            f"{int(most):,} ms",
            "init_transactions() is refused: INVALID_TRANSACTION_TIMEOUT",
            "lower it",
        )


def check_settings(facts: Facts) -> Iterator[Finding]:
    """The client's own settings lose and double nothing."""
    settings = facts.settings
    acks = settings.get("acks", settings.get("request.required.acks", "all"))
    if acks not in ("all", "-1"):
        yield Finding(
            "acks-not-all",
            RISKY,
            "setting acks",
            f"it is {acks}",
            "a record that was confirmed is lost with its broker",
            "set acks to all",
        )
    if settings.get("enable.idempotence", "").lower() == "false":
        yield Finding(
            "not-idempotent",
            RISKY,
            "setting enable.idempotence",
            "it is false",
            "a retry whose first answer was lost writes the record twice",
            "set it to true",
        )
    delivery = number_of(facts, "delivery.timeout.ms")
    if 0 < delivery < _OUTAGE_S * 1000:
        yield Finding(
            "delivery-timeout-short",
            RISKY,
            "setting delivery.timeout.ms",
            f"it is {delivery:,} ms",
            f"records fail while a broker restarts, which takes up to {_OUTAGE_S} s",
            "raise it",
        )
    for setting, text in facts.clashes:
        yield Finding(
            "policy-clash",
            RISKY,
            f"setting {setting}",
            text,
            "the policy does something else than it says",
            "make the two agree",
        )
