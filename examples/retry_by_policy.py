"""Try a call again as a policy says, and see why it was given up.

No broker is needed: the failures are made up here, and the waits are skipped.
"""

from __future__ import annotations

from kafkaguard import errors, load_policy, retry
from kafkaguard.policies import outcome_of, retry_testing

POLICY = load_policy(
    {
        "extends": "admin",
        "name": "patient",
        "overrides": [
            # The security service restarts at night: a denial may pass.
            {"when": {"code": 29}, "action": "RETRY", "max_attempts": 3}
        ],
    }
)


@retry(POLICY, api="ListOffsets", topic="orders")
def end_offset() -> int:
    """Stand in for a call to a broker."""
    return 42


def main() -> None:
    """Run the three cases: it passes, it passes later, it does not pass."""
    with retry_testing() as testing:
        print("at once:", end_offset())

        testing.force(errors.LeaderNotAvailableError(), None)
        print("later:", end_offset(), "after waits of", testing.waits, "s")

        denied = [errors.TopicAuthorizationFailedError() for _ in range(3)]
        testing.force(*denied)
        try:
            end_offset()
        except errors.TopicAuthorizationFailedError as error:
            print("never:", outcome_of(error))

    print(POLICY.preview(limit=3))


if __name__ == "__main__":
    main()
