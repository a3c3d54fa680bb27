"""Look up the largest record that a topic accepts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._cluster.topic_settings import TopicSettings

#: Seconds to wait for a topic's settings.
ASK_S = 3.0


def max_message_bytes(ask: Callable[[str], TopicSettings], topic: str) -> int | None:
    """Look up ``max.message.bytes``; None if it is not available within 3 s.

    Args:
        ask: Asks the cluster for the settings of a topic; may take long and may raise.
        topic: The name of the topic.
    """
    answers: list[int | None] = []

    def look_up() -> None:
        try:
            answers.append(ask(topic).max_message_bytes)
        except Exception:  # noqa: BLE001 - the error text works without it
            answers.append(None)

    thread = threading.Thread(target=look_up, name="kafkaguard-limits", daemon=True)
    thread.start()
    thread.join(ASK_S)
    return answers[0] if answers else None
