"""The settings of a retry policy."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    Field,
    StrictBool,
    StrictInt,
    field_validator,
    model_validator,
)

from kafkaguard import _errors as errors
from kafkaguard._common.closest import did_you_mean
from kafkaguard._common.topic_names import ALLOWED, can_be_a_topic
from kafkaguard._delivery.dialects import Dialect
from kafkaguard._delivery.shell import Rescue
from kafkaguard._errors.base import Action
from kafkaguard._errors.generated import BY_CODE, KAFKA_VERSION
from kafkaguard._retries.machine import InDoubt, OnReject
from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.request_names import no_such_request
from kafkaguard_policies.model.base import Part
from kafkaguard_policies.model.fields import (
    Attempts,
    Count,
    Deadline,
    Duration,
    Factor,
    Ratio,
    Records,
    Seconds,
    Tokens,
    Waits,
    allow_none,
    as_written,
    one_or_more,
)
from kafkaguard_policies.model.handler import Handler

T = TypeVar("T")

Client = Literal["kafka-python", "confluent-kafka", "aiokafka", "spark"]
#: Actions that an override may set. The others need a repair by the caller.
Ordered = Literal["RETRY", "REFRESH", "REJECT", "CONFIGURE", "IN_DOUBT"]


class Backoff(Part):
    """How long to wait before the next attempt. All values in seconds."""

    kind: Literal["fixed", "linear", "exponential", "decorrelated"] = "exponential"
    """How waits grow: not at all, by ``base``, by ``factor``, or at random between
    ``base`` and three times the last wait."""
    base: Duration = 0.1
    """The first wait, before jitter."""
    factor: Factor = 2.0
    """How many times longer each wait is than the last (``exponential`` only)."""
    floor: Seconds = 0.0
    """The shortest wait."""
    cap: Duration = 5.0
    """The longest wait, unless the broker asks for a longer one."""
    jitter: Literal["none", "full", "equal"] = "full"
    """Draw each wait between 0 and its full length (``full``) or between half and full
    length (``equal``), or do not change it (``none``). ``decorrelated`` waits are
    random by themselves, so their default is ``none``."""
    honour_throttle: StrictBool = True
    """Wait at least as long as the broker's ``throttle_time_ms`` asks."""

    @model_validator(mode="before")
    @classmethod
    def _set_jitter(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("kind") == "decorrelated":
            return {"jitter": "none", **data}
        return data

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        for name, value in (("floor", self.floor), ("base", self.base)):
            if value > self.cap:
                raise ValueError(
                    f"{name} ({value:g}) must not be above cap ({self.cap:g})"
                )
        if self.kind == "decorrelated" and self.jitter != "none":
            raise ValueError(
                "decorrelated waits are random already: jitter must be none"
            )
        return self


class Budget(Part):
    """A token bucket that retries empty and successes fill.

    It limits the load that retries add to a failing cluster: with the defaults, one
    retry for ten successes in the long run. All clients of a cluster that have the same
    settings share it.
    """

    capacity: Tokens = 100.0
    """The most tokens in the bucket, which starts full."""
    deposit: Tokens = 0.1
    """The tokens that each success adds."""
    cost: dict[Action, Tokens] = Field(default_factory=dict)
    """The tokens that a retry takes, by the kind of failure. Default: 1; ``WAIT`` 0."""

    @field_validator("capacity")
    @classmethod
    def _check_capacity(cls, value: float) -> float:
        if value < 1:
            raise ValueError(
                "a bucket of less than 1 token allows no retry: for no bucket write "
                "budget: none"
            )
        return value


class Breaker(Part):
    """Make no calls to a cluster that keeps failing, for a while; one for each API."""

    failures: Count = 20
    """How many failures in a row open the breaker."""
    open_for: Duration = 30.0
    """How many seconds it stays open before a probe is made."""
    probes: Count = 1
    """How many probes must succeed to close it again."""
    when_open: Literal["fail", "pause"] = "fail"
    """Fail at once, or wait for the probe (for consumers), within the deadline."""


class LetterLimit(Part):
    """The limit of dead letters, above which the records are probably not to blame."""

    ratio: Ratio | None = None
    """The largest share of all records so far that may become dead letters. Its share
    of 1,000 records is always allowed, and one dead letter."""
    consecutive: Records | None = None
    """The most dead letters in a row, without a delivered record between them."""

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if self.ratio is None and self.consecutive is None:
            raise ValueError("limits nothing; give ratio, consecutive, or both")
        return self


class DeadLetter(Part):
    """Where a rejected record goes, and which headers have the reason."""

    topic: str = "{topic}.dlq"
    """The dead-letter topic; ``{topic}`` is replaced by the record's own topic."""
    headers: Dialect = "own"
    """The dialect: kafkaguard's, Spring's ``kafka_dlt-*``, Connect's
    ``__connect.errors.*``, Streams', or that of KIP-1191."""
    limit: Annotated[LetterLimit | None, allow_none(LetterLimit)] = None
    """The limit above which a rejected record fails with its error instead, so that a
    fault of a whole stream does not move all records into the dead-letter topic; null
    (or ``none``) for no limit."""

    @field_validator("topic")
    @classmethod
    def _check_topic(cls, value: str) -> str:
        try:
            name = value.format(topic="t")
        except (IndexError, KeyError, ValueError):
            raise ValueError("the only placeholder is {topic}") from None
        if not can_be_a_topic(name):
            raise ValueError(f"not a valid topic name: {ALLOWED}")
        if name != value.replace("{topic}", "t"):
            raise ValueError("write the placeholder exactly as {topic}")
        if name == "t" and value != "t":
            raise ValueError(
                "this is the record's own topic, so a rejected record would be read "
                "and rejected again without end: write another name, such as "
                "{topic}.dlq"
            )
        return value

    def topic_for(self, topic: str) -> str:
        """Return the dead-letter topic of a topic."""
        return self.topic.format(topic=topic)


def find_error_class(name: str) -> type[errors.KafkaGuardError]:
    """Return the error class of a Kafka name or a class name.

    Raises:
        ValueError: There is no such name; the message has the nearest one.
    """
    if name.isupper():
        try:
            return errors.for_name(name)
        except KeyError as error:
            raise ValueError(error.args[0]) from None
    cls = getattr(errors, name, None)
    if isinstance(cls, type) and issubclass(cls, errors.KafkaGuardError):
        return cls
    classes = {each for each in dir(errors) if each.endswith("Error")}
    raise ValueError(
        f"kafkaguard.errors has no class {name!r}{did_you_mean(name, classes)}"
    )


def _check_not_fenced(code: int | None) -> None:
    if code is not None and classify(code).action is Action.FENCED:
        raise ValueError(
            f"code {code} always stops (FENCED): fencing back would never end"
        )


class OverrideCondition(Part):
    """The failures that an override is for. A missing condition matches anything."""

    code: Annotated[tuple[StrictInt, ...], one_or_more(int)] = ()
    """Error codes, as the broker numbers them."""
    error: Annotated[tuple[str, ...], one_or_more(str)] = ()
    """Kafka's names (``NOT_LEADER_OR_FOLLOWER``) or classes of
    ``kafkaguard.errors``, with all that derive from them."""
    action: Annotated[tuple[Action, ...], one_or_more(Action)] = ()
    """Actions of the verdict."""
    rule: Annotated[tuple[str, ...], one_or_more(str)] = ()
    """Ids of the rules that decided."""
    api: Annotated[tuple[str, ...], one_or_more(str)] = ()
    """Requests, by Kafka's names."""
    topic: Annotated[tuple[str, ...], one_or_more(str)] = ()
    """Topics, as patterns: ``orders-*``."""
    client: Annotated[tuple[Client, ...], one_or_more(Client)] = ()
    """Client libraries."""

    @field_validator("code")
    @classmethod
    def _check_codes(cls, codes: tuple[int, ...]) -> tuple[int, ...]:
        for code in codes:
            if code not in BY_CODE and code >= 0:
                raise ValueError(
                    f"Kafka {KAFKA_VERSION} has no error code {code}; "
                    f"the codes go from -1 to {max(BY_CODE)}"
                )
            _check_not_fenced(code)
        return codes

    @field_validator("error")
    @classmethod
    def _check_errors(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            _check_not_fenced(find_error_class(name).code)
        return names

    @field_validator("api")
    @classmethod
    def _check_apis(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in API_KEYS:
                raise ValueError(no_such_request(name))
        return names

    @field_validator("rule")
    @classmethod
    def _check_rules(cls, ids: tuple[str, ...]) -> tuple[str, ...]:
        from kafkaguard._verdicts.rules import RULES

        rules = {rule.info.id for rule in RULES}
        for name in ids:
            if name not in rules:
                raise ValueError(
                    f"there is no rule {name!r}{did_you_mean(name, rules)}"
                )
        return ids

    @field_validator("action")
    @classmethod
    def _check_actions(cls, actions: tuple[Action, ...]) -> tuple[Action, ...]:
        if Action.FENCED in actions:
            raise ValueError("FENCED always stops: fencing back would never end")
        return actions

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if not self.model_dump(exclude_defaults=True):
            raise ValueError(
                "names no failure; give one of "
                + ", ".join(OverrideCondition.model_fields)
            )
        return self


class Override(Part):
    """Other settings for some failures.

    Values that are left out stay those of the policy.
    """

    when: OverrideCondition
    """The failures that the override is for."""
    action: Ordered | None = None
    """The action instead of the verdict's. If ``RETRY`` may repeat something that was
    written, you must also set ``in_doubt: resend``."""
    max_attempts: Attempts | None = None
    """How many attempts there are in all, the first one included."""
    deadline: Deadline | None = None
    """How many seconds the call may take in all. A deadline that the caller gave
    stays a bound."""
    backoff: Backoff | None = None
    """How long to wait."""
    in_doubt: InDoubt | None = None
    """What to do if a record may have been written."""
    on_reject: OnReject | None = None
    """What to do with a rejected record."""
    cost: Tokens | None = None
    """The tokens that such a retry takes from the budget."""

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if self.model_fields_set <= {"when"}:
            settings = [name for name in Override.model_fields if name != "when"]
            raise ValueError("changes nothing; give one of " + ", ".join(settings))
        return self


class PolicyDocument(Part):
    """The checked settings of a retry policy."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = "custom"
    """A name for logs and metrics. It is not part of what ``policy_id`` hashes."""
    description: str = ""
    """What the policy is for, for people."""
    max_attempts: Attempts = 5
    """How many attempts, the first one included."""
    deadline: Deadline = 120.0
    """How many seconds a call may take, with all attempts and waits."""
    attempt_timeout: Annotated[Duration | None, allow_none(Duration)] = None
    """How many seconds one attempt may take: for coroutines, and for adapters that
    can pass it to their client. Default: as long as the deadline allows."""
    max_waits: Waits = 1_000
    """How often a call may wait without an attempt being counted (``WAIT``)."""
    backoff: Backoff = Backoff()
    """How long to wait before the next attempt."""
    budget: Annotated[Budget | None, allow_none(Budget)] = Budget()
    """The limit of the load that retries add to the cluster; null (or ``none``) for no
    limit."""
    breaker: Annotated[Breaker | None, allow_none(Breaker)] = None
    """When to make no calls for a while; null (or ``none``) for never."""
    on_reject: OnReject = "raise"
    """What to do with a record that can never succeed."""
    dead_letter: DeadLetter = DeadLetter()
    """Where it goes with ``on_reject: dead_letter``."""
    in_doubt: InDoubt = "raise"
    """What to do if a record may have been written: ``raise`` the error, only
    ``report`` it in the counts (for records; a call raises), or ``resend``, which may
    cause a duplicate."""
    rescue: Rescue = "ordered"
    """What to do with a record that failed only because its batch failed: send it
    again, but never after a later one of its key (``ordered``: it fails as SUPERSEDED
    instead); always send it again (``any_order``); or let it fail (``never``)."""
    null_key: Literal["reject", "send"] = "reject"
    """A record without a key for a compacted topic: reject it before anything is
    sent (KIP-135), or leave it to the broker, which fails its whole batch."""
    disguised_null_key: Literal["warn", "reject", "send"] = "warn"
    """The same for a key of None that a serialiser made into ``null`` or ``None``."""
    on_offset_reset: Literal["as_client", "raise"] = "as_client"
    """What to do if a consumer's position is out of range: reset it as the client's own
    setting says (``auto_offset_reset``), or raise instead of losing records."""
    keep_pauses: bool = False
    """Whether a partition that the application has paused is paused again when a
    consumer of kafka-python or aiokafka gets it back after a rebalance.
    confluent-kafka's client does that by itself."""
    handler: Handler = Handler()
    """How ``consumer.process()`` handles records."""
    overrides: tuple[Override, ...] = ()
    """Other settings for some failures. Of those that match, the last one
    decides."""

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.attempt_timeout is not None and self.attempt_timeout > self.deadline:
            raise ValueError(
                f"attempt_timeout ({self.attempt_timeout:g}) must not be above "
                f"deadline ({self.deadline:g})"
            )
        return self

    def __hash__(self) -> int:
        """Hash the content, so that a policy can be a dict key."""
        return hash(self.policy_id)

    @cached_property
    def policy_id(self) -> str:
        """Twelve hexadecimal digits that identify the content.

        Equal settings have the same id in every process and from every source. Name and
        description are not part of it.
        """
        content = self.model_dump(exclude={"name", "description"})
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def replace(self, **changes: Any) -> Self:
        """Return a policy with some settings changed, checked like a new one."""
        own = {name: as_written(getattr(self, name)) for name in self.model_fields_set}
        return type(self)(**{**own, **changes})


def ways_of_rejecting(policy: PolicyDocument) -> frozenset[OnReject]:
    """Return all values of ``on_reject`` in a policy and its overrides."""
    others = (each.on_reject for each in policy.overrides)
    return frozenset({policy.on_reject, *(way for way in others if way is not None)})
