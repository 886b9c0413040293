"""Quotas are kept tidy, and what was held back by a limit goes on when it has room again, should nobody have said so."""

from __future__ import annotations

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import at_once_if_any


class QuotaReconciler:
    name = "quota_reconciler"
    topic = "quota_reconciler"
    timed = False

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.quota_reconciler_ms

    async def run(self, engine: Engine) -> int:
        return (await engine.reconcile_quota_counters()).processed

    async def next_due(self, engine: Engine) -> int | None:
        return None


class LimitReleaser:
    name = "limit_releaser"
    topic = "limit_releaser"
    timed = True

    def __init__(self, settings: LoopSettings) -> None:
        self.interval_ms = settings.unblock_ms
        self._wanted = settings.wanted

    async def run(self, engine: Engine) -> int:
        return await engine.release_limited(wanted=self._wanted)

    async def next_due(self, engine: Engine) -> int | None:
        return await at_once_if_any(engine, "limited")
