"""Background loops of a store whose processes elect one of them to run the loops."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import nullcontext

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.engine.telemetry import Telemetry
from flowfabric.loops.leader_only import LeaderOnly
from flowfabric.loops.loop_thread import LoopThread


class ElectedLoops:
    """Loops on a thread.

    `elected` makes them on that thread. It gets the settings of the engine instead of the engine,
    so that an engine that is not closed can be collected.
    """

    def __init__(self, elected: Callable[[Settings, LoopSettings | None], LeaderOnly]) -> None:
        self._elected = elected
        self.thread: LoopThread | None = None

    @property
    def is_running(self) -> bool:
        return self.thread is not None and self.thread.is_running

    @property
    def leads(self) -> bool:
        return self.thread is not None and self.thread.leads

    def start(self, engine: Engine, settings: LoopSettings | None) -> bool:
        if self.thread is not None:
            return False
        elected, engine_settings = self._elected, engine.settings
        self.thread = LoopThread(lambda: nullcontext(elected(engine_settings, settings)))
        self.thread.watched_by(engine.telemetry)
        self.thread.start()
        weakref.finalize(engine, self.thread.end).atexit = False
        return True

    def watched_by(self, listener: Telemetry) -> None:
        if self.thread is not None:
            self.thread.watched_by(listener)

    async def stop(self, grace_s: float) -> None:
        thread, self.thread = self.thread, None
        if thread is not None:
            await thread.stop(grace_s)

    async def release(self) -> None:
        await self.stop(5.0)
