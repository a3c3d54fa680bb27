"""The machine, told whatever a client and a driver may tell, in any order."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from kafka.errors import IllegalStateError, KafkaTimeoutError, for_code

from kafkaguard._delivery import commands as c
from kafkaguard._delivery.attempts import AttemptLimits
from kafkaguard._delivery.facts import Answer, Place, Raw, Refusal, Traits
from kafkaguard._delivery.machine import DeliveryMachine
from kafkaguard._delivery.sizes import batch_size
from kafkaguard._retries.breaker import CircuitBreaker
from kafkaguard._retries.budget import RetryBudget
from tests.delivery.world.batches import Item, Items
from tests.delivery.world.words import Letters, Limit, PlainErrors, PlainPolicy

#: How a batch fails: the code or None, who is to blame, and what was sent.
FAILURES = {
    "one is named": (87, None, "answered"),
    "nobody is named": (87, "batch", "answered"),
    "too large": (10, "batch", "answered"),
    "a bad time": (32, None, "answered"),
    "denied": (29, "batch", "answered"),
    "not told apart": (87, "unknown", "answered"),
    "given up unsent": (None, "client", "never"),
    "given up on its way": (None, "client", "maybe"),
    "never sent in time": (None, "client", "never"),
    "may pass": (19, "batch", "answered"),
}
SHARED = {
    "nothing": AttemptLimits,
    "budget": lambda: AttemptLimits(budget=RetryBudget(2.0, 0.5)),
    "breaker": lambda: AttemptLimits(breaker=CircuitBreaker(2, 10.0, 1)),
    "breaker that fails": lambda: AttemptLimits(
        breaker=CircuitBreaker(2, 10.0, 1), pauses=False
    ),
}
REPLIED = (
    c.HoldSends,
    c.Send,
    c.HearOut,
    c.Stop,
    c.AskAnswers,
    c.Replace,
    c.AskSizeLimit,
)


class AnyOrder(RuleBasedStateMachine):
    """Batches, deaths, replies and time as they come."""

    @initialize(
        rescue=st.sampled_from(["ordered", "any_order", "never"]),
        in_doubt=st.sampled_from(["raise", "report", "resend"]),
        on_reject=st.sampled_from(["raise", "dead_letter", "drop"]),
        limit=st.sampled_from([None, Limit(consecutive=1), Limit(ratio=0.001)]),
        hears_late=st.booleans(),
        takes_back=st.booleans(),
        attempts=st.sampled_from([1, 3, 1000]),
        shared=st.sampled_from(["nothing", "budget", "breaker that fails", "breaker"]),
    )
    def start(
        self, rescue, in_doubt, on_reject, limit, hears_late, takes_back, attempts,
        shared,
    ):  # fmt: skip
        """Begin under some policy."""
        letters = Letters(limit)
        self.machine = DeliveryMachine(
            Traits(
                "model",
                30.0,
                "delivery.timeout",
                hears_late=hears_late,
                takes_back=takes_back,
                margin=1.0,
            ),
            PlainPolicy(
                rescue,
                in_doubt,
                on_reject,
                letters,
                attempts=attempts,
                deadline=100.0,
            ),
            PlainErrors(),
            size_alone=lambda raw: batch_size(raw.key, raw.value, raw.headers),
            shared=SHARED[shared](),
        )
        self.now, self.numbers, self.batches = 0.0, 0, 0
        self.open, self.replies = [], []
        self.endings = {}

    def tell(self, commands):
        """Keep what is to be replied to; note what is settled."""
        for command in commands:
            if isinstance(command, c.Settle):
                self.settled(command.record.first_token, command.record.outcome.ending)
            elif isinstance(command, c.FailBatches):
                for batch in command.batches:
                    self.fail(batch, KafkaTimeoutError(), "client", "maybe", late=True)
            elif isinstance(command, c.TakeBack):
                place = command.behind.place
                for batch in [each for each in self.open if each.place == place]:
                    self.fail(batch, IllegalStateError(), "client", "never")
            elif isinstance(command, REPLIED):
                self.replies.append(command)

    def settled(self, item, ending):
        """Note an outcome: the only one."""
        assert item.number not in self.endings
        self.endings[item.number] = ending

    # --- the client -------------------------------------------------------------------

    def begin(self, topic, items):
        """Begin a batch."""
        self.batches += 1
        batch = Items(Place(topic, 0), (0, self.batches), self.now + 31.0)
        batch.items += items
        self.open.append(batch)
        self.machine.began(batch)
        return batch

    @rule(
        topic=st.sampled_from(["a", "b"]),
        keys=st.lists(st.sampled_from([b"x", b"y", None]), min_size=1, max_size=4),
    )
    def send(self, topic, keys):
        """The application sends records, unless its topic is held."""
        if {None, topic} & self.machine.holds:
            return
        items = []
        for key in keys:
            value, time = b"%d:good:v" % self.numbers, self.numbers % 3 or None
            items.append(Item(Raw(key, value, (), time), is_new=True))
            self.numbers += 1
        self.begin(topic, items)

    def take(self, data):
        """Take one of the open batches."""
        number = data.draw(st.integers(0, len(self.open) - 1))
        return self.open.pop(number)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def accept(self, data):
        """A batch is accepted; its own records are told so by the client."""
        batch = self.take(data)
        for item in batch.items:
            if item.is_new:
                self.settled(item, "delivered")
        self.tell(self.machine.accepted(batch, self.now))
        self.tell(self.machine.accepted(batch, self.now))  # told twice

    @precondition(lambda self: self.open)
    @rule(data=st.data(), how=st.sampled_from(sorted(FAILURES)))
    def refuse(self, data, how):
        """A batch fails."""
        code, blame, sent = FAILURES[how]
        batch = self.take(data)
        cause = IllegalStateError() if code is None else for_code(code)()
        late = how == "never sent in time"
        guilty = data.draw(st.integers(0, 3))
        self.fail(batch, cause, blame, sent, guilty=guilty, late=late)

    def fail(self, batch, cause, blame, sent, *, guilty=0, late=False):
        """Tell that all records of a batch have failed."""
        if batch in self.open:
            self.open.remove(batch)
        refusals = [
            Refusal(
                item,
                index,
                cause,
                blame or ("record" if index == guilty % len(batch.items) else "mate"),
                sent,
                first_try=True,
                expired=late,
                null_key=item.raw.key is None,
            )
            for index, item in enumerate(batch.items)
        ]
        self.tell(self.machine.failed(batch, refusals, self.now))

    @rule()
    def die(self):
        """The client is dead."""
        self.tell(self.machine.died(IllegalStateError("x"), None, self.now))

    # --- the driver -------------------------------------------------------------------

    @precondition(lambda self: self.replies)
    @rule(data=st.data(), is_well=st.booleans())
    def reply(self, data, is_well):
        """Some command has been carried out."""
        command = self.replies.pop(data.draw(st.integers(0, len(self.replies) - 1)))
        machine, now = self.machine, self.now
        match command:
            case c.HoldSends(topic):
                self.tell(machine.held(topic, now))
            case c.Send(topic, records):
                self.hand_over(topic, records, data, is_well=is_well)
            case c.HearOut():
                self.tell(machine.heard_out(now))
            case c.Stop():
                for batch in list(self.open):
                    self.fail(batch, IllegalStateError(), "client", "never")
                self.tell(machine.stopped(now))
            case c.AskAnswers(batches):
                answers = {b: Answer(base_offset=5) for b in batches if is_well}
                self.tell(machine.answered(answers, now))
            case c.Replace() if is_well:
                self.tell(machine.replaced(now))
            case c.Replace():
                may_build_later = data.draw(st.booleans())
                self.tell(
                    machine.not_replaced(
                        OSError("x"),
                        now,
                        may_build_later=may_build_later,
                        awaited=False,
                    )
                )
            case c.AskSizeLimit(topic):
                self.tell(machine.size_limit(topic, 1000 if is_well else None, now))

    def hand_over(self, topic, records, data, *, is_well):
        """Records are handed over; their batch may end before the driver says so."""
        items = [Item(record.raw, is_new=False) for record in records]
        if not is_well:
            errors = [OSError("x")] * len(items)
            self.tell(self.machine.sent(topic, errors, self.now))
            return
        batch = self.begin(topic, items)
        if data.draw(st.booleans()):
            self.open.remove(batch)
            self.tell(self.machine.accepted(batch, self.now))
        self.tell(self.machine.sent(topic, items, self.now))

    @rule(seconds=st.sampled_from([0.1, 5.0, 40.0]))
    def wait(self, seconds):
        """Time passes."""
        self.now += seconds
        self.tell(self.machine.tick(self.now))

    @rule()
    def want(self):
        """A send waits for a client."""
        self.tell(self.machine.wanted(self.now))

    # --- what must hold ---------------------------------------------------------------

    @invariant()
    def pending_are_those_without_an_outcome(self):
        """Whatever happened, each record is counted once, or has its outcome."""
        if hasattr(self, "machine"):
            assert self.numbers - len(self.endings) == self.machine.pending()

    def teardown(self):
        """Close: every record has its outcome, and the report counts each once."""
        if not hasattr(self, "machine"):
            return
        self.tell(self.machine.closing(self.now))
        for batch in list(self.open):
            self.fail(batch, IllegalStateError(), "client", "maybe")
        self.tell(self.machine.settle_all("closed", self.now))
        sending = [r for r in self.replies if isinstance(r, c.Send)]
        for command in sending:
            errors = [OSError("x")] * len(command.records)
            self.tell(self.machine.sent(command.topic, errors, self.now))
        assert len(self.endings) == self.numbers
        assert self.machine.pending() == 0
        assert not self.machine.holds
        report = self.machine.report(0)
        told = Counter(self.endings.values())
        for ending in ("delivered", "failed", "in_doubt", "dead_lettered", "dropped"):
            assert getattr(report, ending) == told[ending]
        count = self.machine._counters.letters
        assert count._letters == told["dead_lettered"]
        assert count._others == self.numbers - told["dead_lettered"]


AnyOrder.TestCase.settings = settings(stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
