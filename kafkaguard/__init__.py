"""kafkaguard: what an error of a Kafka broker means, and the right next step.

``import kafkaguard`` loads no Kafka client, no pydantic and no pyspark: each name is
loaded at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common import classifier
from kafkaguard._common.public import exports
from kafkaguard._version import __version__ as __version__

if TYPE_CHECKING:
    from kafkaguard import (
        cluster as cluster,
        errors as errors,
        events as events,
        policies as policies,
        protocol as protocol,
        spark as spark,
        telemetry as telemetry,
        testing as testing,
    )
    from kafkaguard._delivery.report import DeliveryReport as DeliveryReport
    from kafkaguard._processing.exceptions import (
        BatchError as BatchError,
        Unavailable as Unavailable,
    )
    from kafkaguard._processing.handling import (
        Handling as Handling,
        handling as handling,
    )
    from kafkaguard._processing.report import (
        ProcessReport as ProcessReport,
        Progress as Progress,
    )
    from kafkaguard._verdicts.classification import classify as classify
    from kafkaguard._verdicts.context import TopicFacts as TopicFacts
    from kafkaguard._errors.base import (
        Action as Action,
        RuleInfo as RuleInfo,
        Verdict as Verdict,
    )
    from kafkaguard_adapters.guarded import guard as guard
    from kafkaguard_adapters.processing.stopping import (
        stop_on_signals as stop_on_signals,
    )
    from kafkaguard_adapters.replay.calls import replay as replay
    from kafkaguard_adapters.replay.letters import DeadLetter as DeadLetter
    from kafkaguard_adapters.replay.report import (
        ReplayPlan as ReplayPlan,
        ReplayReport as ReplayReport,
    )
    from kafkaguard_policies.reading.sources import load_policy as load_policy
    from kafkaguard_policies.retry_policy import RetryPolicy as RetryPolicy
    from kafkaguard_policies.decorator import retry as retry

exports(
    __name__,
    {
        "kafkaguard.cluster": "",
        "kafkaguard.errors": "",
        "kafkaguard.events": "",
        "kafkaguard.policies": "",
        "kafkaguard.protocol": "",
        "kafkaguard.spark": "",
        "kafkaguard.telemetry": "",
        "kafkaguard.testing": "",
        "kafkaguard._delivery.report": "DeliveryReport",
        "kafkaguard._processing.exceptions": "BatchError Unavailable",
        "kafkaguard._processing.handling": "Handling handling",
        "kafkaguard._processing.report": "ProcessReport Progress",
        "kafkaguard._verdicts.classification": "classify",
        "kafkaguard._verdicts.context": "TopicFacts",
        "kafkaguard._errors.base": "Action RuleInfo Verdict",
        "kafkaguard_adapters.guard": "guard",
        "kafkaguard_adapters.processing.stopping": "stop_on_signals",
        "kafkaguard_adapters.replay.calls": "replay",
        "kafkaguard_adapters.replay.letters": "DeadLetter",
        "kafkaguard_adapters.replay.report": "ReplayPlan ReplayReport",
        "kafkaguard_policies.reading.sources": "load_policy",
        "kafkaguard_policies.retry_policy": "RetryPolicy",
        "kafkaguard_policies.decorator": "retry",
    },
    loaded=["__version__"],
)


def _classify(error: errors.KafkaGuardError) -> Verdict:
    """Load the rules at the first use; their ``classify`` takes this one's place."""
    from kafkaguard._verdicts.classification import classify

    classifier.classify = classify
    return classify(error)


classifier.classify = _classify
