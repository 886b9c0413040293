"""Which leases are still held, asked for many at once and without renewing them."""

from __future__ import annotations

from flowfabric import Engine
from flowfabric.engine.leases.holder import MAX_CHECKED
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.lease import RevokeLeaseArgs

from .helpers import completed, invalid, running


async def test_cancelled_revoked_and_ended_leases_are_not_held(engine: Engine) -> None:
    kept, cancelled, revoked = [await running(engine) for _ in range(3)]
    _, over = await completed(engine)
    handles = [kept[1], cancelled[1], revoked[1], over]
    assert await engine.are_held(handles) == [True, True, True, False]
    await engine.cancel_execution(CancelExecutionArgs(execution_id=cancelled[0], reason=""))
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=revoked[0]))
    assert await engine.are_held(handles) == [True, False, False, False]
    assert await engine.are_held([]) == []
    await invalid(engine.are_held([kept[1]] * (MAX_CHECKED + 1)), "handles")
