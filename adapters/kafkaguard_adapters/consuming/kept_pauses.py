"""Pauses of the application that outlive a rebalance (the policy's ``keep_pauses``).

kafka-python and aiokafka forget a pause when its partition goes away, so a rebalance
would hand out records of partitions that the application had paused.
"""

from __future__ import annotations

from typing import Any


class KeptPauses:
    """Pauses partitions again when they are assigned again.

    It replaces methods of the client's subscription state, which both clients name
    alike. They are called in the thread, or the event loop, that uses the client.

    Args:
        subscription: The client's subscription state.
    """

    def __init__(self, subscription: Any) -> None:
        self._paused: set[Any] = set()
        self._pause = subscription.pause
        self._resume = subscription.resume
        self._assign = subscription.assign_from_subscribed
        self._unsubscribe = subscription.unsubscribe
        subscription.pause = self._note_pause
        subscription.resume = self._note_resume
        subscription.assign_from_subscribed = self._assign_paused
        subscription.unsubscribe = self._forget

    def _note_pause(self, place: Any) -> Any:
        result = self._pause(place)
        self._paused.add(place)
        return result

    def _note_resume(self, place: Any) -> Any:
        self._paused.discard(place)
        return self._resume(place)

    def _assign_paused(self, assigned: Any) -> Any:
        result = self._assign(assigned)
        for place in self._paused.intersection(assigned):
            self._pause(place)
        return result

    def _forget(self) -> Any:
        self._paused.clear()
        return self._unsubscribe()
