"""Real brokers and faults for tests, and handlers without a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.public import exports

if TYPE_CHECKING:
    from kafkaguard.testing.cluster.broker import Broker as Broker
    from kafkaguard.testing.cluster.cluster import KafkaCluster as KafkaCluster
    from kafkaguard.testing.cluster.errors import (
        ClusterError as ClusterError,
        JarsNotFoundError as JarsNotFoundError,
        JavaNotFoundError as JavaNotFoundError,
        StartError as StartError,
    )
    from kafkaguard.testing.cluster.listeners import Listener as Listener
    from kafkaguard.testing.handlers import (
        HandlerAttempt as HandlerAttempt,
        HandlerRun as HandlerRun,
        Letter as Letter,
        run_handler as run_handler,
    )
    from kafkaguard.testing.proxy.journal import (
        AnsweredError as AnsweredError,
        Closure as Closure,
        Counts as Counts,
        Exchange as Exchange,
        Journal as Journal,
    )
    from kafkaguard.testing.proxy.actions import Fault as Fault
    from kafkaguard.testing.proxy.matching import Request as Request
    from kafkaguard.testing.proxy.language import (
        FaultSpecError as FaultSpecError,
        SelectedRequests as SelectedRequests,
    )
    from kafkaguard.testing.proxy.proxy import (
        FaultProxy as FaultProxy,
        ProxyError as ProxyError,
    )

exports(
    __name__,
    {
        "kafkaguard.testing.cluster.broker": "Broker",
        "kafkaguard.testing.cluster.cluster": "KafkaCluster",
        "kafkaguard.testing.cluster.errors": (
            "ClusterError JarsNotFoundError JavaNotFoundError StartError"
        ),
        "kafkaguard.testing.cluster.listeners": "Listener",
        "kafkaguard.testing.handlers": "HandlerAttempt HandlerRun Letter run_handler",
        "kafkaguard.testing.proxy.journal": (
            "AnsweredError Closure Counts Exchange Journal"
        ),
        "kafkaguard.testing.proxy.actions": "Fault",
        "kafkaguard.testing.proxy.matching": "Request",
        "kafkaguard.testing.proxy.language": "FaultSpecError SelectedRequests",
        "kafkaguard.testing.proxy.proxy": "FaultProxy ProxyError",
    },
)
