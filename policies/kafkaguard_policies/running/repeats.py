"""A repeated create, delete or alter whose first attempt succeeded.

A create, delete or alter whose answer was lost is repeated. The answers "exists
already" and "does not exist" then mean success. Whether the existing state is the
requested one can only be checked by the caller's ``confirm``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkaguard._common.logs import Log
from kafkaguard._errors import InvalidPartitionsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._errors.base import Verdict

_log = Log("retry")

#: The rules whose verdict means that the repeated change has succeeded.
DONE_BEFORE: Final = frozenset({"created-already", "deleted-already"})
#: Controllers' texts when a topic already has the requested number of partitions.
_PARTITIONS: Final = re.compile(
    r"already has \d+ partition|has (\d+) partition\(s\); \1 would not be an increase"
)


def is_done_before(error: Exception, verdict: Verdict) -> bool:
    """Return whether an answer to a repeated change means that it was made before.

    A number of partitions is refused for other reasons too, so the text is checked.
    """
    if verdict.rule.id not in DONE_BEFORE:
        return False
    if verdict.error_class is not InvalidPartitionsError:
        return True
    return _PARTITIONS.search(str(error)) is not None


def report_done(
    error: Exception, verdict: Verdict, confirm: Callable[[], object] | None
) -> None:
    """Log that an earlier attempt made the change, and what was checked.

    Args:
        error: The error of the repeated call.
        verdict: The verdict that makes it a success.
        confirm: Checks the existing state; returns False, or text on the differences.
    """
    if verdict.rule.id == "deleted-already":
        _log.info(
            "deleted_already", "%s: %s", verdict.rule.sentence, error, error=error
        )
        return
    if confirm is None:
        _log.warning(
            "repeat_not_checked",
            "an earlier attempt made this change, but its answer was lost (%s), and "
            "nothing checked the result: give retry(confirm=...) to check it",
            error,
            error=error,
        )
        return
    try:
        answer = confirm()
    except Exception:  # noqa: BLE001 - the check is the caller's
        _log.exception(
            "confirm_raised",
            "an earlier attempt made this change, and confirm() raised an exception: "
            "check the object yourself",
        )
        return
    if answer is False or isinstance(answer, str):
        what = f": {answer}" if isinstance(answer, str) else ""
        _log.warning(
            "repeat_differs",
            "the object exists, but confirm() found that it differs from the "
            "request%s: check it, then alter it or delete it (answer to the repeated "
            "call: %s)",
            what,
            error,
            error=error,
        )
