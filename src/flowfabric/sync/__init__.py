"""The SDK for programs without an event loop: the same names, and every call blocks."""

from flowfabric.sdk.sync_context import Context
from flowfabric.sync.app import App
from flowfabric.sync.flow import FlowBuilder, Node, all_of, any_of, quorum, race
from flowfabric.sync.run import Run
from flowfabric.sync.task import Task
from flowfabric.sync.worker import Worker

__all__ = [
    "App",
    "Context",
    "FlowBuilder",
    "Node",
    "Run",
    "Task",
    "Worker",
    "all_of",
    "any_of",
    "quorum",
    "race",
]
