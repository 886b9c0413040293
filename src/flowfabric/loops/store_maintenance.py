"""Reclaims the space that commits leave behind in the store."""

from __future__ import annotations

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import BaseLoop


class StoreMaintenance(BaseLoop):
    name = "store_maintenance"
    topic = "store_maintenance"

    def __init__(self, settings: LoopSettings) -> None:
        super().__init__(settings, settings.store_maintenance_ms)

    async def run(self, engine: Engine) -> int:
        return await engine.store.maintain()
