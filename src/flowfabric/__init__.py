"""FlowFabric: durable execution for Python, on SQLite to begin with and on Postgres in
production.
"""

from flowfabric.connect import PostgresBackend, SqliteBackend, connect, memory_engine
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.engine.local_protocol import LocalEngineProtocol as EngineBackend
from flowfabric.errors import EngineError, FlowFabricError
from flowfabric.ids import ExecutionId
from flowfabric.middleware.breaker import CircuitBreakerLayer
from flowfabric.middleware.layer import with_layers
from flowfabric.middleware.metrics import MetricsLayer
from flowfabric.middleware.rate_limit import RateLimitLayer
from flowfabric.middleware.tracing import TracingLayer
from flowfabric.model.attempt import FailureClass, FailureReason
from flowfabric.model.budget import (
    CreateBudgetArgs,
    HardBreach,
    HardLimitAction,
    RecordSpendArgs,
    ReportUsageAdminArgs,
    SoftBreach,
    UpdateBudgetArgs,
    UsageAlreadyApplied,
    UsageDimensions,
    UsageOk,
)
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.explanation import Explanation, Reason, Why
from flowfabric.model.flow import (
    CancelFlowPolicy,
    EdgePolicy,
    GraphEdge,
    OnSatisfied,
    SubmitFlowArgs,
)
from flowfabric.model.history import HistoryEntry, What
from flowfabric.model.lease import ClaimPolicy, Handle
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy
from flowfabric.model.quota import CheckAdmissionArgs, CreateQuotaPolicyArgs, UpdateQuotaPolicyArgs
from flowfabric.model.stream import (
    AppendOutcome,
    BestEffortLive,
    Durable,
    DurableSummary,
    Frame,
    FrameKind,
    StreamFrame,
    StreamFrames,
    SummaryDocument,
    Visibility,
)
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
from flowfabric.sdk.app import App
from flowfabric.sdk.children import Call
from flowfabric.sdk.context import Context
from flowfabric.sdk.exceptions import (
    BudgetExceeded,
    CancelRun,
    ChildFailed,
    Fatal,
    FlowFailed,
    IdempotencyConflict,
    PayloadError,
    Rejected,
    Retry,
    RunCancelled,
    RunError,
    RunExpired,
    RunFailed,
    RunSkipped,
    StepError,
    UnknownBudget,
)
from flowfabric.sdk.flow import Node, all_of, any_of, quorum, race
from flowfabric.sdk.flow_handle import Flow, FlowInfo
from flowfabric.sdk.limits import Budget, Quota
from flowfabric.sdk.logging import log_middleware
from flowfabric.sdk.options import Retention
from flowfabric.sdk.run import Run
from flowfabric.sdk.run_info import Progress, RunCounts, RunInfo, RunPage
from flowfabric.sdk.serialization import Codec, State
from flowfabric.sdk.task import Task
from flowfabric.sdk.waits import Answer, Decision, OpenWaitpoint, Signal
from flowfabric.sdk.worker import Worker

__all__ = [
    "AllOf",
    "Answer",
    "App",
    "AppendOutcome",
    "BestEffortLive",
    "Budget",
    "BudgetExceeded",
    "Call",
    "CancelFlowPolicy",
    "CancelRun",
    "CheckAdmissionArgs",
    "ChildFailed",
    "CircuitBreakerLayer",
    "ClaimPolicy",
    "Codec",
    "Context",
    "Count",
    "CountKind",
    "CreateBudgetArgs",
    "CreateExecutionArgs",
    "CreateQuotaPolicyArgs",
    "Decision",
    "DeliverSignalArgs",
    "Durable",
    "DurableSummary",
    "EdgePolicy",
    "Engine",
    "EngineBackend",
    "EngineError",
    "ExecutionId",
    "ExecutionPolicy",
    "Explanation",
    "FailureClass",
    "FailureReason",
    "Fatal",
    "Flow",
    "FlowFabricError",
    "FlowFailed",
    "FlowInfo",
    "Frame",
    "FrameKind",
    "FreshWaitpoint",
    "GraphEdge",
    "Handle",
    "HardBreach",
    "HardLimitAction",
    "HistoryEntry",
    "IdempotencyConflict",
    "LoopSettings",
    "MetricsLayer",
    "Node",
    "OnSatisfied",
    "OpenWaitpoint",
    "PayloadError",
    "PostgresBackend",
    "Progress",
    "Quota",
    "RateLimitLayer",
    "Reason",
    "ReasonCode",
    "RecordSpendArgs",
    "RegisterWorkerArgs",
    "Rejected",
    "ReportUsageAdminArgs",
    "Retention",
    "Retry",
    "RetryPolicy",
    "Run",
    "RunCancelled",
    "RunCounts",
    "RunError",
    "RunExpired",
    "RunFailed",
    "RunInfo",
    "RunPage",
    "RunSkipped",
    "ScannerFilter",
    "Settings",
    "Signal",
    "Single",
    "SoftBreach",
    "SqliteBackend",
    "State",
    "StepError",
    "StreamFrame",
    "StreamFrames",
    "SubmitFlowArgs",
    "SummaryDocument",
    "SuspendArgs",
    "Suspended",
    "Task",
    "TimeoutBehavior",
    "TracingLayer",
    "UnknownBudget",
    "UpdateBudgetArgs",
    "UpdateQuotaPolicyArgs",
    "UsageAlreadyApplied",
    "UsageDimensions",
    "UsageOk",
    "UsePending",
    "Visibility",
    "What",
    "Why",
    "Worker",
    "WorkerInfo",
    "all_of",
    "any_of",
    "connect",
    "log_middleware",
    "memory_engine",
    "quorum",
    "race",
    "with_layers",
]
