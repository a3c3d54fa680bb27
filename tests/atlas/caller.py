"""What all callers have: a world of their own, and the settings that bound their waits."""

from __future__ import annotations

import time

#: Seconds for which an answer "for ever" lasts: longer than each client's own time limit.
LASTS_S = 6.0
#: The clients' own time limit for a call, in seconds.
LIMIT_S = 4
LIMIT_MS = LIMIT_S * 1000
#: The policy of a guarded client.
POLICY = {"extends": "default", "deadline": LIMIT_S}
#: Requests of a consumer that is a member of a group.
OF_MEMBERS = ("JoinGroup", "SyncGroup", "Heartbeat")
#: Requests of a transaction, whose producer has its id before the answers begin.
OF_TRANSACTIONS = ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
#: Requests whose answers matter while the client connects.
OF_CONNECTIONS = ("SaslHandshake", "SaslAuthenticate")


class SilenceError(Exception):
    """Nothing came, and nothing was raised."""


class AnsweredError(Exception):
    """The client does not raise: it returns an answer that contains the code."""

    def __init__(self, code):
        super().__init__(code)
        self.errno = code


class Caller:
    """A client, and the call of a user that makes a certain request.

    ``open`` prepares it, then the answers begin; ``call`` makes the call, and ``again``
    a second one once the answers have ended. What they raise is what the user gets.

    Args:
        world: Addresses, topics and names of this cell alone.
        guarded: Whether the client is guarded.
    """

    def __init__(self, world, *, guarded):
        self.world = world
        self.guarded = guarded
        self.client = None

    def open(self):
        """Make the client ready."""

    def call(self):
        """Make the call."""
        raise NotImplementedError

    def again(self):
        """Make it once more."""
        self.call()

    def close(self):
        """Close the client."""

    def guard(self, factory, config):
        """Return the client, guarded or bare."""
        if self.guarded:
            from kafkaguard import guard

            return guard(factory=factory, config=config, policy=POLICY)
        return factory(config) if "bootstrap.servers" in config else factory(**config)

    def until(self, done, seconds=LASTS_S + 8):
        """Call until it returns something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if done():
                return
        raise SilenceError


def role(api):
    """Return which kind of caller makes a request."""
    if api in ("Produce", "Metadata", *OF_CONNECTIONS):
        return "Sending"
    if api in ("InitProducerId", *OF_TRANSACTIONS):
        return "Transacting"
    if api in OF_MEMBERS:
        return "Joining"
    if api in (
        "Fetch",
        "ListOffsets",
        "FindCoordinator",
        "OffsetCommit",
        "OffsetFetch",
    ):
        return "Reading"
    return "Administrating"
