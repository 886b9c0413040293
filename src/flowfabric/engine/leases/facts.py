"""Handles, and the facts that cannot change while a lease holds."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from flowfabric.codec.handle import decode_handle, encode_handle
from flowfabric.engine.snapshots import pages
from flowfabric.errors import Contention, ContentionKind, NotFound
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import BackendTag, Handle, HandleFields, HandleKind
from flowfabric.store.port import Get, Scan, Store

MAX_FACTS = 50_000
MAX_EPOCH = 2**63 - 1
PAGE = 500


class LeaseFacts(Struct, frozen=True, gc=False):
    """The facts of a lease that no other caller can change while it holds."""

    fields: HandleFields
    retry_count: int
    policy: str | None

    @property
    def may_have_children(self) -> bool:
        """A first lease has only children submitted by this engine; a later one may have more."""
        return self.fields.lease_epoch > 1


class LeaseCache:
    """The handles this engine granted, with their facts. One per engine."""

    def __init__(self, tag: BackendTag) -> None:
        self._tag, self._label = tag, tag.label
        self._facts: dict[bytes, LeaseFacts] = {}

    def handle(
        self, fields: HandleFields, kind: HandleKind, *, retry_count: int, policy: str | None
    ) -> Handle:
        """A handle for a new lease, whose facts are kept."""
        opaque = encode_handle(fields)
        if len(self._facts) >= MAX_FACTS:
            del self._facts[next(iter(self._facts))]
        self._facts[opaque] = LeaseFacts(fields, retry_count, policy)
        return Handle(self._label, kind, opaque)

    def facts(self, handle: Handle) -> LeaseFacts | None:
        is_own = type(handle) is Handle and handle.backend == self._label
        return self._facts.get(handle.opaque) if is_own else None

    def fields(self, handle: Handle) -> HandleFields:
        known = self.facts(handle)
        if known is not None:
            return known.fields
        fields = decode_handle(handle, self._tag)
        if fields.lease_epoch > MAX_EPOCH:
            raise Contention(ContentionKind.LEASE_CONFLICT)  # no store grants such an epoch
        return fields

    def forget(self, handle: Handle) -> None:
        """The lease has ended."""
        self._facts.pop(handle.opaque, None)

    def may_have_children(self, handle: Handle) -> bool:
        """True where the facts of the lease are unknown."""
        known = self._facts.get(handle.opaque)
        return known is None or known.may_have_children

    def clear(self) -> None:
        """Forgets all facts; a handle is then decoded and its row read."""
        self._facts.clear()

    def forget_execution(self, ident: ExecutionId) -> None:
        """Drops facts that no longer hold: the execution got children, or a limit held it back."""
        stale = [key for key, known in self._facts.items() if known.fields.execution_id == ident]
        for opaque in stale:
            del self._facts[opaque]


class _LeaseEvent(Struct, frozen=True):
    event_id: int
    lease_id: UUID | str | None


async def check_granted(store: Store, lease: HandleFields) -> None:
    """Raises unless the execution has had this lease.

    An attempt names its last lease, the lease events name all of them.
    """
    ident, key = lease.execution_id, lease.execution_id.key
    loaded = await store.load(
        (
            Get("ff_exec_core", key, ("execution_id",)),
            Get("ff_attempt", (*key, lease.attempt_index), ("lease_id",)),
        )
    )
    execution, attempt = loaded.rows
    if not execution:
        raise NotFound("execution", ident)
    if any(lease_id == lease.lease_id for (lease_id,) in attempt):
        return
    wanted = str(lease.lease_id)
    group, columns = {"execution_id": ident.uuid}, _LeaseEvent.__struct_fields__
    scan = Scan("lease_events_of", group, limit=PAGE, columns=columns)
    async for page in pages(store, scan, _LeaseEvent):
        if any(str(event.lease_id) == wanted for event in page):
            return
    raise Contention(ContentionKind.LEASE_CONFLICT)
