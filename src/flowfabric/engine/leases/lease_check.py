"""Whether a lease was granted. An attempt names its last lease, the lease events all of them."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from flowfabric.engine.snapshots import load_all
from flowfabric.errors import Contention, ContentionKind, NotFound
from flowfabric.model.lease import HandleFields
from flowfabric.store.port import Get, Scan, Store

PAGE = 500


class _LeaseEvent(Struct, frozen=True):
    event_id: int
    lease_id: UUID | str | None


async def check_granted(store: Store, lease: HandleFields) -> None:
    """Raises unless an attempt of the execution has had this lease."""
    ident = lease.execution_id
    key = ident.key
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
    after: tuple[int] | None = None
    while True:
        scan = Scan(
            "lease_events_of",
            {"execution_id": ident.uuid},
            after,
            limit=PAGE,
            columns=_LeaseEvent.__struct_fields__,
        )
        page = await load_all(store, scan, _LeaseEvent)
        if any(str(event.lease_id) == wanted for event in page):
            return
        if len(page) < PAGE:
            raise Contention(ContentionKind.LEASE_CONFLICT)
        after = (page[-1].event_id,)
