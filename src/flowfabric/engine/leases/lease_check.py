"""Whether a lease was ever granted. Its attempt names the newest one; earlier leases of an attempt are in its lease events."""

from __future__ import annotations

from flowfabric.errors import Contention, ContentionKind, NotFound
from flowfabric.model.lease import HandleFields
from flowfabric.store.port import Get, Scan, Store

PAGE = 500


async def check_granted(store: Store, lease: HandleFields) -> None:
    """Raises where no attempt of the execution had this lease."""
    who = lease.execution_id
    key = (who.partition_index, who.uuid)
    columns = ("lease_id",)
    loaded = await store.load(
        (
            Get("ff_exec_core", key, ("execution_id",)),
            Get("ff_attempt", (*key, lease.attempt_index), columns),
        )
    )
    execution, attempt = loaded.rows
    if not execution:
        raise NotFound("execution", who)
    if attempt and attempt[0][0] == lease.lease_id:
        return
    wanted, after = str(lease.lease_id), None
    while True:
        scan = Scan(
            "lease_events_of",
            {"execution_id": who.uuid},
            after,
            limit=PAGE,
            columns=("event_id", *columns),
        )
        page = (await store.load((scan,))).rows[0]
        if any(str(known) == wanted for _, known in page):
            return
        if len(page) < PAGE:
            raise Contention(ContentionKind.LEASE_CONFLICT)
        after = (page[-1][0],)
