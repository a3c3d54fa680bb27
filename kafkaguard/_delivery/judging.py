"""The meaning of a failure that a client reported. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.report import SupersededError
from kafkaguard._errors import (
    AuthenticationError,
    BatchMateRefusedError,
    ClientClosedError,
    ClientConfigurationError,
    ClientStateError,
    ClientTimeoutError,
    ClusterAuthorizationFailedError,
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaGuardError,
    MessageTooLargeError,
    OutOfOrderSequenceNumberError,
    RecordListTooLargeError,
    RecordPurgedError,
    UnknownProducerIdError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafkaguard._errors.base import Action, RuleInfo, Verdict
from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.signals import signal_of

if TYPE_CHECKING:
    from kafkaguard._delivery.facts import Place, Refusal, Traits
    from kafkaguard._delivery.records import Record
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard._verdicts.context import TopicFacts

MESSAGE_TOO_LARGE = MessageTooLargeError.code
INVALID_TIMESTAMP = InvalidTimestampError.code
#: Answers to a null key on a compacted topic (of current and of old brokers), and to a
#: timestamp that the topic does not accept.
_REFUSED_RECORD = frozenset(
    {InvalidRecordError.code, CorruptMessageError.code, INVALID_TIMESTAMP}
)
#: The batch is too large.
_REFUSED_BATCH = frozenset({MESSAGE_TOO_LARGE, RecordListTooLargeError.code})
#: A sequence number is not the next one.
_SEQUENCE_ERRORS = frozenset(
    {OutOfOrderSequenceNumberError.code, UnknownProducerIdError.code}
)
#: The verdict for each record of a failed transaction (KIP-1050).
ABORTED = classify(120, api="EndTxn")
#: The verdict for a record that was sent and got no answer.
IN_DOUBT = classify(ClientTimeoutError(), api="Produce")
#: The verdict for a record that was sent, and that its client gave up.
GIVEN_UP = classify(-151)
#: The verdict for a record that its client did not send; another client may send it.
NOT_SENT = classify(ClientTimeoutError(), api="Produce", phase="enqueue")
#: The verdict for a record whose topic no broker knows.
NO_TOPIC = classify(UnknownTopicOrPartitionError(), api="Produce", phase="enqueue")
#: The verdict for a record of an idempotent producer that gets no id.
NO_PRODUCER_ID = Verdict(
    Action.CONFIGURE,
    retriable=False,
    written="no",
    error_class=ClientConfigurationError,
    rule=RuleInfo(
        "no-producer-id",
        "an idempotent producer sends nothing without an id: change the setting "
        "or the brokers",
        "KIP-98; InitProducerId",
        "A service with Kafka's protocol, but without InitProducerId.",
    ),
)
#: The verdict for a send that waited too long for records before it.
HELD = Verdict(
    Action.WAIT,
    retriable=True,
    written="no",
    error_class=ClientTimeoutError,
    rule=RuleInfo(
        "held-too-long",
        "earlier records of the topic are being sent again: wait, then send the same "
        "record",
        "guarded producers",
        "A broker is away for longer than a send waits.",
    ),
)
#: Failures that a new client, with the same settings, would have as well.
_NOT_FOR_A_NEW_CLIENT = (
    AuthenticationError,
    ClientConfigurationError,
    ClusterAuthorizationFailedError,
)
_STOPS = frozenset({Action.FENCED, Action.CONFIGURE})
#: Codes about the state of a partition, for which no record of a batch is to blame.
_OF_PARTITION = frozenset({3, 5, 6, 13, 19, 56, 74, 75})


@dataclass(frozen=True, slots=True)
class Judgement:
    """Why a record failed.

    Attributes:
        error: The error, of the client's class and kafkaguard's.
        may_be_rescued: Its batch or its client failed, not the record itself. So it may
            be sent again with the policy's ``rescue``, if it was not written.
        client_failed: It was certainly not written, and only its client is to blame.
        in_flight: Its client gave it up while it was in flight.
        may_be_tried: It was certainly not written, and another attempt may succeed. The
            policy decides whether there is one.
        last_verdict: The verdict if there is no other attempt; None: the error's own.
    """

    error: KafkaGuardError
    may_be_rescued: bool = False
    client_failed: bool = False
    in_flight: bool = False
    may_be_tried: bool = False
    last_verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class RefusalFacts:
    """Facts that belong to a refusal.

    Attributes:
        place: The record's topic and partition.
        count: The number of records in its batch.
        alone: Whether an answer is about this record only: it was sent alone, to find
            out whether it is to blame, or was alone in a batch of a transaction.
        topic_facts: Facts about the topic.
        fits: Whether the record alone is within the topic's limit; None if unknown.
        closed: Whether the producer is closed, or being closed.
        has_time: Whether it expired only because the time of another record in its
            batch was over.
        is_part: Whether its batch is a part of one that was refused for its size.
    """

    place: Place
    count: int
    alone: bool = False
    topic_facts: TopicFacts | None = None
    fits: bool | None = None
    closed: bool = False
    has_time: bool = False
    is_part: bool = False


class Judge:
    """Judges the failures of one client.

    Args:
        traits: The client's traits.
        errors: Makes the client's errors.
    """

    def __init__(self, traits: Traits, errors: ClientErrors) -> None:
        self._traits = traits
        self._errors = errors

    def judge(self, refusal: Refusal, facts: RefusalFacts) -> Judgement:
        """Decide the meaning of a refusal for its record."""
        if refusal.expired and not facts.has_time:
            error = self._make_expired(refusal, facts)
            is_unsent = refusal.sent == "never"
            return Judgement(error, may_be_tried=is_unsent and may_be_tried(error))
        if refusal.blame == "client":
            return self._judge_given_up(refusal, facts)
        if refusal.sent == "never":
            error = self._translate_cause(refusal, facts)
            last_verdict = NO_TOPIC if refusal.is_topic_absent else None
            return Judgement(
                error, may_be_tried=may_be_tried(error), last_verdict=last_verdict
            )
        return self._judge_answer(refusal, facts)

    def _judge_answer(self, refusal: Refusal, facts: RefusalFacts) -> Judgement:
        is_mate = self._is_mate(refusal, facts)
        if self._traits.transactional:  # no record of a transaction is sent again
            make = self._make_mate if is_mate else self._make_refused
            return Judgement(make(refusal, facts))
        if refusal.was_unanswered:
            return Judgement(self._make_in_doubt(refusal, facts))
        if is_mate:
            return Judgement(self._make_mate(refusal, facts), may_be_rescued=True)
        error = self._make_refused(refusal, facts)
        # The client, not the record, caused the gap in the sequence numbers.
        is_transient, is_gap = may_be_tried(error), error.code in _SEQUENCE_ERRORS
        is_first_gap = is_gap and refusal.first_try is True
        is_vague = (
            refusal.blame == "unknown"
            and not facts.alone
            and not (self._traits.repeats and error.code in _OF_PARTITION)
        )
        # The client reports its attempts: none of the earlier ones has written it.
        is_certain = refusal.first_try is not None and is_transient
        return Judgement(
            error,
            may_be_rescued=is_first_gap or (is_vague and is_transient),
            client_failed=is_first_gap,
            may_be_tried=is_certain and not is_gap,
        )

    # --- the client gave up -----------------------------------------------------------

    def _judge_given_up(self, refusal: Refusal, facts: RefusalFacts) -> Judgement:
        if self._traits.transactional:
            return Judgement(self._make_aborted(refusal, facts))
        cause = refusal.cause
        is_sent = refusal.sent != "never"
        if not is_sent and ends_all(cause):
            text = cause.summary if isinstance(cause, KafkaGuardError) else None
            return Judgement(
                self._errors.translate(cause, message=text, **_error_arguments(facts))
            )
        why = f"the producer gave up ({_name_of(refusal)})"
        if facts.closed:
            why = "the producer was closed"
        if is_sent:
            text = (
                f"{why} while this record had no answer yet: it may have been written"
            )
            error = make_unanswered(
                self._errors, text, original=cause, **_error_arguments(facts)
            )
            return Judgement(error, may_be_rescued=True, in_flight=True)
        text = f"{why} before this record was sent: it was not written"
        error = self._errors.make(
            ClientClosedError,
            text,
            original=cause,
            verdict=NOT_SENT,
            **_error_arguments(facts),
        )
        return Judgement(error, may_be_rescued=True, client_failed=True)

    def _make_expired(self, refusal: Refusal, facts: RefusalFacts) -> KafkaGuardError:
        is_sent = refusal.sent != "never"
        if not is_sent:
            what_happened = (
                "it never left the client (no broker could be reached for it, or its "
                "topic is not known): it was not written"
            )
        elif refusal.first_try is None:
            what_happened = (
                f"{self._traits.client} does not say whether it was sent: it may have "
                "been written"
            )
        else:
            what_happened = "it was sent and got no answer: it may have been written"
        context: dict[str, Any] = {"transactional": self._traits.transactional}
        if not is_sent:
            context["phase"] = "enqueue"
        return self._errors.translate(
            refusal.cause,
            message=f"no outcome within {self._time_limit}; {what_happened}",
            context=context,
            **_error_arguments(facts),
        )

    def _make_aborted(self, refusal: Refusal, facts: RefusalFacts) -> KafkaGuardError:
        if facts.is_part and is_too_large(refusal) and refusal.sent == "never":
            return self._make_mate(refusal, facts)
        verdict = classify(refusal.cause, api="Produce", transactional=True)
        if verdict.action not in _STOPS:
            verdict = ABORTED
        return self._errors.translate(
            refusal.cause,
            message=(
                "its transaction has failed, so consumers of committed records never "
                "see it"
            ),
            verdict=verdict,
            **_error_arguments(facts),
        )

    def make_late(self, error: KafkaGuardError) -> KafkaGuardError:
        """Make the error of a record whose time was over before it could be sent again.

        Args:
            error: The record's first error.
        """
        if error.verdict.written != "no":
            return error
        late = self._errors.make(
            ClientTimeoutError,
            f"no outcome within {self._time_limit}, because it had to be sent again; "
            "it was not written",
            api="Produce",
            topic=error.topic,
            partition=error.partition,
            verdict=NOT_SENT,
        )
        late.__cause__ = error
        return late

    @property
    def _time_limit(self) -> str:
        traits = self._traits
        return f"{traits.delivery_timeout:g} s ({traits.timeout_setting})"

    # --- a broker's answer ------------------------------------------------------------

    def _is_mate(self, refusal: Refusal, facts: RefusalFacts) -> bool:
        """Return whether the batch or another record was refused, not this record."""
        code = _code_in(refusal.cause)
        # A client that has split a batch fails all of its parts.
        is_small_part = code in _REFUSED_BATCH and facts.is_part and facts.fits
        if refusal.blame == "mate" or is_small_part:
            return True
        if refusal.blame == "record" or facts.alone:
            return False
        if code in _REFUSED_BATCH:
            has_mates = refusal.blame == "unknown" or facts.count > 1
            return has_mates and facts.fits is not False
        if code not in _REFUSED_RECORD:
            return False
        if refusal.blame == "unknown":
            is_compacted = (
                facts.topic_facts is not None and facts.topic_facts.compacted is True
            )
            return not (refusal.null_key and is_compacted)
        return facts.count > 1 and not refusal.null_key

    def _make_mate(self, refusal: Refusal, facts: RefusalFacts) -> KafkaGuardError:
        why = (
            "its batch was larger than the topic allows"
            if _code_in(refusal.cause) in _REFUSED_BATCH
            else "another record of the same batch was refused"
        )
        return self._errors.make(
            BatchMateRefusedError,
            f"{why}; this one was not written",
            original=_exception(refusal.cause),
            verdict=ABORTED if self._traits.transactional else None,
            **_error_arguments(facts),
        )

    def _make_in_doubt(self, refusal: Refusal, facts: RefusalFacts) -> KafkaGuardError:
        """Judge a refusal of a batch that may have been written before."""
        but = f"but an earlier attempt {_end_of(refusal)}, so it may have been written"
        if refusal.blame == "mate":
            return self._errors.make(
                BatchMateRefusedError,
                f"the broker refused another record of its batch, {but}",
                original=_exception(refusal.cause),
                verdict=replace(IN_DOUBT, error_class=BatchMateRefusedError),
                **_error_arguments(facts),
            )
        refused = classify(refusal.cause, api="Produce")
        return self._errors.translate(
            refusal.cause,
            message=f"the broker refused it, {but}",
            verdict=replace(IN_DOUBT, error_class=refused.error_class),
            **_error_arguments(facts),
        )

    def _make_refused(self, refusal: Refusal, facts: RefusalFacts) -> KafkaGuardError:
        # An answer about this record alone is more exact than facts about the topic.
        is_vague = refusal.blame == "unknown" and not facts.alone
        context: dict[str, Any] = {
            "null_key": refusal.null_key,
            "facts": facts.topic_facts if is_vague else None,
            "transactional": self._traits.transactional,
        }
        if (
            not is_vague
            and not refusal.null_key
            and _code_in(refusal.cause) == InvalidRecordError.code
        ):
            context["phase"] = "single"
        return self._errors.translate(
            refusal.cause, context=context, **_error_arguments(facts)
        )

    def _translate_cause(
        self, refusal: Refusal, facts: RefusalFacts
    ) -> KafkaGuardError:
        if isinstance(refusal.cause, KafkaGuardError):
            return refusal.cause
        context = {"transactional": self._traits.transactional}
        error = self._errors.translate(
            refusal.cause, context=context, **_error_arguments(facts)
        )
        if error.verdict.written != "no":
            # The code is the answer to another request, such as Metadata.
            conclude(error, replace(NOT_SENT, error_class=error.verdict.error_class))
        return error

    def make_not_taken(self, why: BaseException, record: Record) -> KafkaGuardError:
        """Make the error of a record that the client did not accept again."""
        if isinstance(why, KafkaGuardError):
            return why
        topic, partition = record.place
        return self._errors.translate(
            why,
            context={"phase": "enqueue"},
            api="Produce",
            topic=topic,
            partition=partition,
        )

    # --- what the machine decides by itself -------------------------------------------

    def make_too_large(self, place: Place, text: str) -> KafkaGuardError:
        """Make the error of a record that is above its topic's limit."""
        return self._errors.make(
            MessageTooLargeError,
            text,
            api="Produce",
            topic=place.topic,
            partition=place.partition,
        )

    def make_superseded(self, error: KafkaGuardError) -> KafkaGuardError:
        """Make the error of a record that a later record of its key has overtaken."""
        late = self._errors.make(
            SupersededError,
            "it failed only with its batch, but a later record of its key was "
            "accepted or is being sent, so it was not sent again",
            api="Produce",
            topic=error.topic,
            partition=error.partition,
        )
        late.__cause__ = error
        return late


def make_unanswered(errors: ClientErrors, text: str, **details: Any) -> KafkaGuardError:
    """Make the error of a record that its client gave up after sending it."""
    return errors.make(errors.given_up, text, verdict=GIVEN_UP, **details)


def ends_all(cause: Any) -> bool:
    """Return whether a new client would not help.

    It was fenced, is not authorized, or its settings do not suit the cluster.
    """
    verdict: Verdict = classify(cause, api="Produce")
    return verdict.action is Action.FENCED or issubclass(
        verdict.error_class, _NOT_FOR_A_NEW_CLIENT
    )


def is_about_records(cause: Any) -> bool:
    """Return whether a client has died of a broker's answer about its records.

    The answer may also be about the client: its sequence is broken.
    """
    if _code_in(cause) is None:
        return False
    return classify(cause, api="Produce").action is not Action.RECREATE


def may_be_written(code: int) -> bool:
    """Return whether the batch of an answered attempt may be in the topic.

    Also for an idempotent producer: the broker checks a record before it looks whether
    it has the batch already, so it may refuse what it has written. After a 3 that comes
    so late (``DelayedProduce``) the topic is gone, with the batch.
    """
    return classify(code, api="Produce", idempotent=False).written != "no"


def may_be_tried(error: KafkaGuardError) -> bool:
    """Return whether a record was not written, and another attempt may succeed."""
    return error.verdict.retriable and error.verdict.written == "no"


def is_too_large(refusal: Refusal) -> bool:
    """Return whether the broker refused a batch or a record for its size."""
    return _code_in(refusal.cause) in _REFUSED_BATCH


def may_be_set_aside(error: KafkaGuardError) -> bool:
    """Return whether an error is about the record, so that it may be dead-lettered."""
    return error.verdict.action is Action.REJECT and not isinstance(
        error, (ClientStateError, RecordPurgedError)
    )


def is_rejected(error: KafkaGuardError) -> bool:
    """Return whether a record was refused; the application may also have purged it."""
    is_purged = isinstance(error, RecordPurgedError)
    return error.verdict.action is Action.REJECT and not is_purged


def conclude(error: KafkaGuardError, verdict: Verdict) -> None:
    """Give an error the verdict that it has when nothing is tried again."""
    vars(error)["_verdict"] = verdict


def add_words(error: KafkaGuardError, words: str) -> None:
    """Add text to an error."""
    text = error.summary or (None if error.broker_message else error.original_text)
    error.summary = f"{text}; {words}" if text else words


def _error_arguments(facts: RefusalFacts) -> dict[str, Any]:
    topic, partition = facts.place
    return {"api": "Produce", "topic": topic, "partition": partition}


def _end_of(refusal: Refusal) -> str:
    """Return what is known about the attempt that may have written a record."""
    match refusal.earlier:
        case None:
            return "may have got no answer"
        case "lost":
            return "got no answer"
        case code:
            return f"was answered with {for_code(code).name} ({code})"


def _code_in(cause: Any) -> int | None:
    """Return the broker's code that a client's exception or error object carries."""
    signal = signal_of(cause)
    return signal.key if signal is not None and isinstance(signal.key, int) else None


def _name_of(refusal: Refusal) -> str:
    """Return Kafka's or librdkafka's name of a cause, or that of its class."""
    code = _code_in(refusal.cause)
    return type(refusal.cause).__name__ if code is None else for_code(code).name


def _exception(cause: Any) -> BaseException | None:
    return cause if isinstance(cause, BaseException) else None
