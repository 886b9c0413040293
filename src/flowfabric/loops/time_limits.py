"""Attempts that take too long and executions past their deadline are ended."""

from __future__ import annotations

from typing import Any

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.loops.loop import Worklist
from flowfabric.model.state import ExpirePhase


class _TimeLimit:
    name: str
    topic: str
    phase: ExpirePhase
    timed = True

    def __init__(self, settings: LoopSettings, interval_ms: int) -> None:
        self.interval_ms = interval_ms
        self._due = Worklist(self.name, settings.wanted)

    async def run(self, engine: Engine) -> int:
        async def expire(ident: ExecutionId) -> Any:
            return await engine.expire_execution(ident, self.phase)

        return await self._due.each(engine, self.topic, await engine.store.now_ms(), expire)

    async def next_due(self, engine: Engine) -> int | None:
        return await engine.store.next_due(self.topic)


class AttemptTimeout(_TimeLimit):
    name = topic = "attempt_timeout"
    phase = ExpirePhase.ATTEMPT_TIMEOUT

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.attempt_timeout_ms)


class ExecutionDeadline(_TimeLimit):
    name = "execution_deadline"
    topic = "deadline"
    phase = ExpirePhase.EXECUTION_DEADLINE

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.execution_deadline_ms)
