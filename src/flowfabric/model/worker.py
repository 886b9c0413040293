"""The worker registry."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

MAX_DEAD_REASON_BYTES = 256
MAX_LIVENESS_TTL_MS = 86_400_000


class WorkerInfo(Struct, frozen=True):
    """A row of `ff_worker_registry`."""

    namespace: str
    worker_instance_id: str
    worker_id: str
    lanes: tuple[str, ...]
    capabilities: tuple[str, ...]
    last_heartbeat_ms: int
    liveness_ttl_ms: int
    expires_at_ms: int
    registered_at_ms: int
    version: int = 0


class Routed(Struct, frozen=True, gc=False):
    """The columns of an execution that routing uses."""

    partition_key: int
    execution_id: UUID
    namespace: str
    instance_tag: str | None
    lane_id: str
    required_capabilities: tuple[str, ...]
    blocking_reason: str
    priority: int
    created_at_ms: int
    last_transition_at: int
    version: int
    tags: str


class RegisterWorkerArgs(Struct, frozen=True, kw_only=True):
    worker_id: str
    worker_instance_id: str
    lanes: frozenset[str] = frozenset({"default"})
    capabilities: frozenset[str] = frozenset()
    liveness_ttl_ms: int = 30_000
    namespace: str = "default"
    now: int | None = None


class Registered(Struct, frozen=True, tag=True):
    pass


class Refreshed(Struct, frozen=True, tag=True):
    next_expiry_ms: int


class NotRegistered(Struct, frozen=True, tag=True):
    pass


class Marked(Struct, frozen=True, tag=True):
    pass
