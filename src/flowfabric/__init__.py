"""FlowFabric: durable execution for Python, on SQLite to begin with and on Postgres in production."""

from flowfabric.connect import PostgresBackend, SqliteBackend, connect, memory_engine
from flowfabric.engine.backend import EngineBackend
from flowfabric.engine.engine import Engine
from flowfabric.engine.kernel import Settings
from flowfabric.errors import EngineError, FlowFabricError
from flowfabric.ids import ExecutionId
from flowfabric.loops.loop import LoopSettings
from flowfabric.model.attempt import FailureClass, FailureReason
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import CancelFlowPolicy, EdgePolicy, GraphEdge, OnSatisfied, SubmitFlowArgs
from flowfabric.model.lease import ClaimPolicy, Handle
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy

__all__ = [
    "CancelFlowPolicy",
    "ClaimPolicy",
    "CreateExecutionArgs",
    "EdgePolicy",
    "Engine",
    "EngineBackend",
    "EngineError",
    "ExecutionId",
    "ExecutionPolicy",
    "FailureClass",
    "FailureReason",
    "FlowFabricError",
    "GraphEdge",
    "Handle",
    "LoopSettings",
    "OnSatisfied",
    "PostgresBackend",
    "RetryPolicy",
    "ScannerFilter",
    "Settings",
    "SqliteBackend",
    "SubmitFlowArgs",
    "connect",
    "memory_engine",
]
