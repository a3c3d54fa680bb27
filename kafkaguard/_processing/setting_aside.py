"""Records that are not tried again: dead letters, and what is dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaguard._processing.events import RecordSetAsideEvent
from kafkaguard._processing.work import SendLetter
from kafkaguard._retries.machine import CallContext, Machine

if TYPE_CHECKING:
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._processing.judging import Judgement
    from kafkaguard._processing.run import Run
    from kafkaguard._processing.slots import Slot


class SettingAside:
    """Sets rejected records aside, as ``on_reject`` says.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._waiting: list[SendLetter] = []
        self._retries: dict[tuple[Slot, int], Machine] = {}

    def reject(
        self,
        slot: Slot,
        seq: int,
        error: BaseException,
        judgement: Judgement,
        now: float,
    ) -> bool:
        """Set a record aside; return False if it ends the run instead."""
        run, way = self._run, judgement.ruling.on_reject
        topic, dead_letter = slot.place.topic, run.policy.dead_letter
        if way == "dead_letter":
            beyond = run.letter_count.count_letter(dead_letter.limit)
            if beyond is not None:
                error.add_note(f"kafkaguard: {beyond}")
                way = "raise"
        letter_topic = dead_letter.topic_for(topic)
        event = RecordSetAsideEvent(
            **run.about(slot, seq, error),
            on_reject=way,
            dead_letter_topic=letter_topic if way == "dead_letter" else None,
        )
        run.tell(event)
        if way == "drop":
            slot.mark([seq])
            run.letter_count.count_other()
            run.counts.add(topic, "dropped")
        elif way == "dead_letter":
            slot.letters += 1
            record, attempts = slot.record(seq), slot.attempts(seq)
            run.commands.append(
                SendLetter(slot, seq, record, error, attempts, letter_topic, now)
            )
        return way != "raise"

    def letter_sent(
        self, letter: SendLetter, error: KafkaGuardError | None, now: float
    ) -> bool:
        """Record the outcome of a letter; return False if it ends the run."""
        run, slot, key = self._run, letter.slot, (letter.slot, letter.seq)
        if error is None:
            self._retries.pop(key, None)
            slot.letters -= 1
            slot.mark([letter.seq])
            run.counts.add(slot.place.topic, "dead_lettered")
            return True
        context = CallContext(topic=letter.topic, client=run.client)
        ruling = run.policy.ruling(error.verdict, context, error)
        machine = self._retries.setdefault(key, Machine(now, run.random))
        step = machine.failed(error.verdict, ruling, now)
        if step.kind == "again" and run.is_running:
            self._waiting.append(replace(letter, due=now + step.wait))
            return True
        run.letter_count.undo_letter()
        self._retries.pop(key, None)
        slot.letters -= 1
        return False

    def send_due(self, now: float) -> None:
        """Send the letters again whose time has come."""
        if self._waiting:
            self._run.commands += [
                each
                for each in self._waiting
                if each.due <= now and not each.slot.is_gone
            ]
            self._waiting = [each for each in self._waiting if each.due > now]

    def due(self) -> list[float]:
        """Return when letters are sent again."""
        return [letter.due for letter in self._waiting]
