"""A change that is asked for again, and turns out to have been made the first time.

A create, delete or alter whose answer was lost is repeated; "exists already" and "is
not there" are then its success. Whether what is there is what was asked for, only a
look can tell: the caller's ``confirm``, or that of a guarded admin.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from kafkaguard.errors import InvalidPartitionsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._verdicts.verdict import Verdict

_log = logging.getLogger("kafkaguard.retry")

#: The rules that take an answer to a repeated change for its success.
DONE_BEFORE: Final = frozenset({"created-already", "deleted-already"})
#: What controllers say where there are as many partitions as were meant.
_PARTITIONS: Final = re.compile(
    r"already has \d+ partition|has (\d+) partition\(s\); \1 would not be an increase"
)


def says_done(error: Exception, verdict: Verdict) -> bool:
    """Say whether an answer to a repeated change means that it was made before.

    A number of partitions is refused for other reasons too; the text tells.
    """
    if verdict.rule.id not in DONE_BEFORE:
        return False
    if verdict.error_class is not InvalidPartitionsError:
        return True
    return _PARTITIONS.search(str(error)) is not None


def tell_done(
    error: Exception, verdict: Verdict, confirm: Callable[[], object] | None
) -> None:
    """Log that a change was made by an earlier attempt, and how far that is known.

    Args:
        error: What the repeated call was answered.
        verdict: Why that is its success.
        confirm: Looks at what is there; returns False, or text on what differs.
    """
    if verdict.rule.id == "deleted-already":
        _log.info("%s: %s", verdict.rule.sentence, error)
        return
    found = getattr(error, "differences", None)
    if confirm is None and found is None:
        _log.warning(
            "an earlier attempt has made it, and its answer was lost (%s): nobody "
            "looked whether it is as it was asked for; a guarded admin, or "
            "retry(confirm=), does",
            error,
        )
        return
    try:
        answer = (found or None) if confirm is None else confirm()
    except Exception:  # noqa: BLE001 - the look is the caller's
        _log.exception("an earlier attempt has made it, and confirm() raised")
        return
    if answer is False or isinstance(answer, str):
        what = f": {answer}" if isinstance(answer, str) else ""
        _log.warning("it is there, and not as it was asked for%s (%s)", what, error)
