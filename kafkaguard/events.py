"""Events: what a hook (``on_event``, ``hooks``) receives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.public import exports

if TYPE_CHECKING:
    from kafkaguard._cluster.remote_storage import (
        RemoteStorageEvent as RemoteStorageEvent,
    )
    from kafkaguard._consuming.events import (
        CommitFailedEvent as CommitFailedEvent,
        OffsetResetEvent as OffsetResetEvent,
        PartitionEvent as PartitionEvent,
        PartitionResumesEvent as PartitionResumesEvent,
        PartitionWaitsEvent as PartitionWaitsEvent,
        ReadFailedEvent as ReadFailedEvent,
    )
    from kafkaguard._processing.events import (
        DependencyEvent as DependencyEvent,
        HandlerEvent as HandlerEvent,
        HandlerFailedEvent as HandlerFailedEvent,
        HandlerSlowEvent as HandlerSlowEvent,
        RecordSetAsideEvent as RecordSetAsideEvent,
    )
    from kafkaguard._retries.events import (
        AttemptEvent as AttemptEvent,
        BreakerEvent as BreakerEvent,
        BudgetEvent as BudgetEvent,
        DeadLetterEvent as DeadLetterEvent,
        Event as Event,
        EventHook as EventHook,
        GiveUpEvent as GiveUpEvent,
        RecreateEvent as RecreateEvent,
        RefreshEvent as RefreshEvent,
        RejectEvent as RejectEvent,
        ReloadEvent as ReloadEvent,
        RetryEvent as RetryEvent,
        WaitEvent as WaitEvent,
    )

exports(
    __name__,
    {
        "kafkaguard._cluster.remote_storage": "RemoteStorageEvent",
        "kafkaguard._consuming.events": (
            "CommitFailedEvent OffsetResetEvent PartitionEvent "
            "PartitionResumesEvent PartitionWaitsEvent ReadFailedEvent"
        ),
        "kafkaguard._processing.events": (
            "DependencyEvent HandlerEvent HandlerFailedEvent HandlerSlowEvent "
            "RecordSetAsideEvent"
        ),
        "kafkaguard._retries.events": (
            "AttemptEvent BreakerEvent BudgetEvent DeadLetterEvent Event EventHook "
            "GiveUpEvent RecreateEvent RefreshEvent RejectEvent ReloadEvent "
            "RetryEvent WaitEvent"
        ),
    },
)
