"""All checks, by area."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._doctor.brokers import (
    check_addresses,
    check_brokers,
    check_disks,
    check_rights,
    check_sight,
    check_versions,
)
from kafkaguard._doctor.findings import Finding, Severity, not_judged
from kafkaguard._doctor.groups import check_members, check_offsets, check_progress
from kafkaguard._doctor.settings import (
    check_fencing,
    check_settings,
    check_transaction_timeout,
    check_transactions,
)
from kafkaguard._doctor.topics import (
    check_absent,
    check_keys,
    check_leaders,
    check_letters,
    check_remote_storage,
    check_replication,
    check_sizes,
    check_timestamps,
    check_unclean,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkaguard._doctor.facts import Facts

#: All checks, by the word that ``--only`` takes.
CHECKS: dict[str, tuple[Callable[[Facts], Iterator[Finding]], ...]] = {
    "reach": (check_addresses, check_brokers, check_versions),
    "topics": (
        check_absent,
        check_leaders,
        check_replication,
        check_unclean,
        check_keys,
        check_sizes,
        check_timestamps,
        check_letters,
        check_remote_storage,
    ),
    "groups": (check_offsets, check_progress, check_members),
    "transactions": (check_transactions, check_fencing, check_transaction_timeout),
    "rights": (check_sight, check_rights),
    "settings": (check_settings,),
    "disks": (check_disks,),
}


def run_checks(facts: Facts, only: tuple[str, ...] = ()) -> list[Finding]:
    """Run the checks, or those of some areas.

    An area in which nothing is wrong, and all was judged, has one finding that says so.
    """
    findings: list[Finding] = []
    for area, checks in CHECKS.items():
        if only and area not in only:
            continue
        found = [finding for check in checks for finding in check(facts)]
        found += [
            not_judged(a, a, str(error)) for a, error in facts.failures if a == area
        ]
        if not found:
            findings.append(
                Finding(
                    area, Severity.FINE, area, f"{len(checks)} checks found nothing"
                )
            )
        findings += found
    return findings
