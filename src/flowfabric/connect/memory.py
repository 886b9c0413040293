"""The engine on the in-memory reference store."""

from __future__ import annotations

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.engine.telemetry import Telemetry
from flowfabric.loops.supervisor import Supervisor
from flowfabric.store.clock import Clock, system_clock
from flowfabric.store.memory import MemoryStore


class MemoryLoops:
    """Loops on the event loop of the engine, since the rows belong to it."""

    leads = True

    def __init__(self) -> None:
        self._supervisor: Supervisor | None = None

    @property
    def is_running(self) -> bool:
        return self._supervisor is not None and self._supervisor.is_running

    def start(self, engine: Engine, settings: LoopSettings | None) -> bool:
        if self._supervisor is not None:
            return False
        self._supervisor = Supervisor(engine, settings)
        self._supervisor.start()
        return True

    def watched_by(self, listener: Telemetry) -> None:
        """The supervisor asks its engine."""

    async def stop(self, grace_s: float) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            await supervisor.stop(grace_s)

    async def release(self) -> None:
        await self.stop(5.0)


class MemoryBackend:
    """Opens engines on the in-memory store."""

    @staticmethod
    def new(clock: Clock = system_clock, settings: Settings | None = None) -> Engine:
        return Engine(MemoryStore(clock), settings, loops=MemoryLoops())


memory_engine = MemoryBackend.new
