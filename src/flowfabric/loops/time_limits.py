"""Ends attempts past their timeout and executions past their deadline."""

from __future__ import annotations

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.loops.loop import BaseLoop, Worklist
from flowfabric.model.state import ExpirePhase


class _TimeLimit(BaseLoop):
    phase: ExpirePhase
    timed = True

    def __init__(self, settings: LoopSettings, interval_ms: int) -> None:
        super().__init__(settings, interval_ms)
        self._worklist = Worklist(self.name, settings.wanted)

    async def run(self, engine: Engine) -> int:
        async def expire(ident: ExecutionId) -> object:
            return await engine.expire_execution(ident, self.phase)

        now = await engine.store.now_ms()
        return await self._worklist.run_index(engine, self.index, now, expire)


class AttemptTimeout(_TimeLimit):
    name = topic = index = "attempt_timeout"
    phase = ExpirePhase.ATTEMPT_TIMEOUT

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.attempt_timeout_ms)


class ExecutionDeadline(_TimeLimit):
    name = "execution_deadline"
    topic = index = "deadline"
    phase = ExpirePhase.EXECUTION_DEADLINE

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.execution_deadline_ms)
