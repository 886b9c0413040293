"""The SDK for programs without an event loop: the same names, and every call blocks."""

from flowfabric.sdk.sync_context import Context
from flowfabric.sync.app import App, Worker
from flowfabric.sync.runs import (
    Flow,
    FlowBuilder,
    Node,
    Run,
    RunInfo,
    Task,
    all_of,
    any_of,
    quorum,
    race,
)

__all__ = [
    "App",
    "Context",
    "Flow",
    "FlowBuilder",
    "Node",
    "Run",
    "RunInfo",
    "Task",
    "Worker",
    "all_of",
    "any_of",
    "quorum",
    "race",
]
