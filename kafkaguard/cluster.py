"""Reports of a cluster: lag, log directories, offsets, and gauges of lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.public import exports

if TYPE_CHECKING:
    from kafkaguard._cluster.lag import (
        GroupLag as GroupLag,
        LagReason as LagReason,
        LagReport as LagReport,
        LagState as LagState,
        Member as Member,
        PartitionLag as PartitionLag,
        TimeReason as TimeReason,
    )
    from kafkaguard._cluster.log_dirs import (
        BrokerLogDirs as BrokerLogDirs,
        LogDir as LogDir,
        LogDirsReport as LogDirsReport,
        Replica as Replica,
    )
    from kafkaguard._cluster.offsets import (
        OffsetsReport as OffsetsReport,
        PartitionOffset as PartitionOffset,
    )
    from kafkaguard._cluster.reports import TopicPartition as TopicPartition
    from kafkaguard._cluster.transactions import (
        OpenProducer as OpenProducer,
        OpenTransaction as OpenTransaction,
        TransactionsReport as TransactionsReport,
    )
    from kafkaguard._doctor.findings import (
        Diagnosis as Diagnosis,
        Finding as Finding,
        Severity as Severity,
    )
    from kafkaguard_adapters.diagnose import diagnose as diagnose
    from kafkaguard_adapters.asking.cluster_calls import (
        AsyncClusterCalls as AsyncClusterCalls,
        AsyncReportCalls as AsyncReportCalls,
        ClusterCalls as ClusterCalls,
        ReportCalls as ReportCalls,
    )
    from kafkaguard_adapters.asking.remote_storage import (
        RemoteStorageWatch as RemoteStorageWatch,
    )

exports(
    __name__,
    {
        "kafkaguard._cluster.lag": (
            "GroupLag LagReason LagReport LagState Member PartitionLag TimeReason"
        ),
        "kafkaguard._cluster.log_dirs": "BrokerLogDirs LogDir LogDirsReport Replica",
        "kafkaguard._cluster.offsets": "OffsetsReport PartitionOffset",
        "kafkaguard._cluster.reports": "TopicPartition",
        "kafkaguard._cluster.transactions": (
            "OpenProducer OpenTransaction TransactionsReport"
        ),
        "kafkaguard._doctor.findings": "Diagnosis Finding Severity",
        "kafkaguard_adapters.diagnose": "diagnose",
        "kafkaguard_adapters.asking.cluster_calls": (
            "AsyncClusterCalls AsyncReportCalls ClusterCalls ReportCalls"
        ),
        "kafkaguard_adapters.asking.remote_storage": "RemoteStorageWatch",
    },
)
