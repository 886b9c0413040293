"""FlowFabric: durable execution for Python, on SQLite to begin with and on Postgres in production."""

from flowfabric.connect import PostgresBackend, SqliteBackend, connect, memory_engine
from flowfabric.engine.backend import EngineBackend
from flowfabric.engine.engine import Engine
from flowfabric.engine.kernel import Settings
from flowfabric.errors import EngineError, FlowFabricError
from flowfabric.ids import ExecutionId
from flowfabric.loops.loop import LoopSettings
from flowfabric.model.attempt import FailureClass, FailureReason
from flowfabric.model.budget import (
    CreateBudgetArgs,
    HardBreach,
    HardLimitAction,
    RecordSpendArgs,
    ReportUsageAdminArgs,
    SoftBreach,
    UsageAlreadyApplied,
    UsageDimensions,
    UsageOk,
)
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.explanation import Explanation, Reason, Why
from flowfabric.model.flow import CancelFlowPolicy, EdgePolicy, GraphEdge, OnSatisfied, SubmitFlowArgs
from flowfabric.model.history import HistoryEntry, What
from flowfabric.model.lease import ClaimPolicy, Handle
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy
from flowfabric.model.quota import CheckAdmissionArgs, CreateQuotaPolicyArgs
from flowfabric.model.waitpoint import (
    AllOf,
    Count,
    CountKind,
    DeliverSignalArgs,
    FreshWaitpoint,
    ReasonCode,
    Single,
    SuspendArgs,
    Suspended,
    TimeoutBehavior,
    UsePending,
)
from flowfabric.model.worker import RegisterWorkerArgs, WorkerInfo

__all__ = [
    "AllOf",
    "CancelFlowPolicy",
    "CheckAdmissionArgs",
    "ClaimPolicy",
    "Count",
    "CountKind",
    "CreateBudgetArgs",
    "CreateExecutionArgs",
    "CreateQuotaPolicyArgs",
    "DeliverSignalArgs",
    "EdgePolicy",
    "Engine",
    "EngineBackend",
    "EngineError",
    "ExecutionId",
    "ExecutionPolicy",
    "Explanation",
    "FailureClass",
    "FailureReason",
    "FlowFabricError",
    "FreshWaitpoint",
    "GraphEdge",
    "Handle",
    "HardBreach",
    "HardLimitAction",
    "HistoryEntry",
    "LoopSettings",
    "OnSatisfied",
    "PostgresBackend",
    "Reason",
    "ReasonCode",
    "RecordSpendArgs",
    "RegisterWorkerArgs",
    "ReportUsageAdminArgs",
    "RetryPolicy",
    "ScannerFilter",
    "Settings",
    "Single",
    "SoftBreach",
    "SqliteBackend",
    "SubmitFlowArgs",
    "SuspendArgs",
    "Suspended",
    "TimeoutBehavior",
    "UsageAlreadyApplied",
    "UsageDimensions",
    "UsageOk",
    "UsePending",
    "What",
    "Why",
    "WorkerInfo",
    "connect",
    "memory_engine",
]
