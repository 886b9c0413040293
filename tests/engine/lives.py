"""One execution on its way through several features: each is begun, and finished with the execution
running again.
"""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import RetryScheduled
from flowfabric.model.execution import CancelExecutionArgs, ReplayExecutionArgs
from flowfabric.model.lease import (
    Claimed,
    Handle,
    ReclaimExecutionArgs,
    ReclaimGrant,
    Revoked,
    RevokeLeaseArgs,
)
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, TimeoutPolicy
from flowfabric.model.state import ExpirePhase
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

from .helpers import TTL_MS, claim, dump, grant_args, row, running, state, told
from .suspend_helpers import KID, SECRET, Parked, park_held, signal, suspend_args

LIMIT_MS, WORK_MS, PAUSE_MS, HOUR_MS = 100_000, 10_000, 1_000, 3_600_000
WAITS = ("delay", "suspend")
"""What an attempt does without ending: the time it has run counts on."""
POLICY = ExecutionPolicy(
    timeout_policy=TimeoutPolicy(attempt_timeout_ms=LIMIT_MS),
    retry_policy=RetryPolicy(max_retries=10, backoff={"type": "fixed", "delay_ms": PAUSE_MS}),
)


class Life:
    """`used_ms` is what the attempt has run of its limit; `former` are the handles that must be
    worth nothing any more.
    """

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self.engine, self.clock = engine, clock
        self.ident: ExecutionId
        self.handle: Handle
        self.parked: Parked
        self.former: list[Handle] = []
        self.used_ms, self.ends = 0, list[str]()

    async def begun(self) -> Life:
        await self.engine.seed_waitpoint_hmac_secret(KID, SECRET)
        deadline = self.clock() + HOUR_MS
        self.ident, self.handle = await running(
            self.engine, policy=POLICY, execution_deadline_at=deadline
        )
        return self

    async def begin(self, feature: str) -> None:
        """Brings it to its middle state: no worker may hold or resume the execution."""
        await self.work()
        await getattr(self, f"_begin_{feature}")()
        if feature not in WAITS:
            self.used_ms = 0
        self.former.append(self.handle)

    async def finish(self, feature: str) -> None:
        self.clock.advance(1)  # histories sort by the millisecond
        self.handle = await getattr(self, f"_finish_{feature}")()

    async def through(self, feature: str) -> None:
        await self.begin(feature)
        await self.finish(feature)

    async def work(self) -> None:
        self.clock.advance(WORK_MS)
        self.used_ms += WORK_MS
        await self.engine.renew(self.handle)

    async def is_right(self) -> None:
        """It runs, has what is left of its limit, and what held it before can change nothing."""
        found, before = await row(self.engine, self.ident), await dump(self.engine)
        assert await state(self.engine, self.ident) == "RUNNING"
        assert found.attempt_timeout_at_ms is not None
        assert LIMIT_MS - (found.attempt_timeout_at_ms - self.clock()) == self.used_ms, self.used_ms
        for handle in self.former:
            for late in (
                self.engine.complete(handle, b"late"),
                self.engine.fail(handle, "late"),
                self.engine.renew(handle),
            ):
                with pytest.raises(EngineError):
                    await late
        assert await dump(self.engine) == before

    async def completed(self) -> list[str]:
        """Ends it, checks the whole store, and tells its history."""
        await self.engine.complete(self.handle, b"done")
        self.ends.append("success")
        assert await self.engine.get_execution_result(self.ident) == b"done"
        assert await self.told() == self.ends, (await self.told(), self.ends)
        await self.is_sound()
        entries = (await self.engine.history(self.ident, 1_000)).items
        ends = [str(entry.details["outcome"]) for entry in entries if entry.what == "ended"]
        assert ends == self.ends, (ends, self.ends)
        return [entry.what.value for entry in entries]

    async def told(self) -> list[str]:
        """The end events; resumptions are on the same channel."""
        return [
            outcome
            for outcome in (await told(self.engine, self.ident))["DONE"]
            if outcome != "resumable"
        ]

    async def is_sound(self) -> None:
        wrong = check(snapshot_of(await self.engine.store.dump(TABLES_READ)))
        assert wrong == [], wrong

    # ---- begun

    async def _begin_delay(self) -> None:
        await self.engine.delay(self.handle, self.clock() + PAUSE_MS)

    async def _begin_retry(self) -> None:
        assert isinstance(await self.engine.fail(self.handle, "boom"), RetryScheduled)

    async def _begin_suspend(self) -> None:
        self.parked = await park_held(self.engine, self.ident, self.handle)

    async def _begin_revoke(self) -> None:
        assert isinstance(
            await self.engine.revoke_lease(RevokeLeaseArgs(execution_id=self.ident)), Revoked
        )

    async def _begin_reclaim(self) -> None:
        self.clock.advance(TTL_MS)
        await self.engine.mark_lease_expired_if_due(self.ident)
        assert isinstance(
            await self.engine.issue_reclaim_grant(grant_args(self.ident, 2)), ReclaimGrant
        )

    async def _begin_timeout(self) -> None:
        while self.used_ms < LIMIT_MS - WORK_MS:
            await self.work()
        self.clock.advance(LIMIT_MS - self.used_ms)

    async def _begin_replay(self) -> None:
        await self.engine.complete(self.handle, b"first")
        self.ends.append("success")
        self.clock.advance(1)
        await self.engine.replay_execution(ReplayExecutionArgs(execution_id=self.ident))

    # ---- finished

    async def _promoted(self) -> Handle:
        self.clock.advance(PAUSE_MS)
        await self.engine.promote_delayed(self.ident)
        return await claim(self.engine)

    _finish_delay = _finish_retry = _promoted

    async def _finish_suspend(self) -> Handle:
        await signal(self.engine, self.parked)
        return await claim(self.engine)

    async def _finish_revoke(self) -> Handle:
        return await claim(self.engine)

    _finish_replay = _finish_revoke

    async def _finish_reclaim(self) -> Handle:
        args = ReclaimExecutionArgs(
            execution_id=self.ident, worker_id="w2", worker_instance_id="w2-i1", lease_ttl_ms=TTL_MS
        )
        got = await self.engine.reclaim_execution(args)
        assert isinstance(got, Claimed)
        return got.handle

    async def _finish_timeout(self) -> Handle:
        assert isinstance(
            await self.engine.expire_execution(self.ident, ExpirePhase.ATTEMPT_TIMEOUT),
            RetryScheduled,
        )
        return await self._promoted()

    # ---- what meets it there

    async def meet(self, feature: str) -> Any:
        """Its answer, or the error it is refused with."""
        try:
            return await getattr(self, f"_meet_{feature}")()
        except EngineError as error:
            return error

    async def _meet_cancel(self) -> Any:
        self.ends.append("cancelled")
        return await self.engine.cancel_execution(
            CancelExecutionArgs(execution_id=self.ident, reason="enough")
        )

    async def _meet_deadline(self) -> Any:
        self.clock.advance(HOUR_MS)
        self.ends.append("expired")
        return await self.engine.expire_execution(self.ident, ExpirePhase.EXECUTION_DEADLINE)

    async def _meet_replay(self) -> Any:
        return await self.engine.replay_execution(ReplayExecutionArgs(execution_id=self.ident))

    async def _meet_revoke(self) -> Any:
        return await self.engine.revoke_lease(RevokeLeaseArgs(execution_id=self.ident))

    async def _meet_reclaim(self) -> Any:
        return await self.engine.issue_reclaim_grant(grant_args(self.ident, 3))

    async def _meet_timeout(self) -> Any:
        return await self.engine.expire_execution(self.ident, ExpirePhase.ATTEMPT_TIMEOUT)

    async def _meet_retry(self) -> Any:
        return await self.engine.fail(self.former[-1], "boom")

    async def _meet_delay(self) -> Any:
        return await self.engine.delay(self.former[-1], self.clock() + HOUR_MS)

    async def _meet_suspend(self) -> Any:
        return await self.engine.suspend(self.former[-1], suspend_args())
