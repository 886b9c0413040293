"""The in-memory store: the reference for what a plan means."""

from flowfabric.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
