"""Lanes: registration, state and listing."""

from __future__ import annotations

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import full_page, load_all, load_one
from flowfabric.errors import invalid
from flowfabric.ids import lane_id
from flowfabric.model.execution import Lane, Page
from flowfabric.model.state import LaneState
from flowfabric.rules.executions import create
from flowfabric.store.port import Get, Scan


class Lanes:
    """Lanes. Each process registers a lane once."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._registered: set[str] = set()

    async def register(self, lane: str, registered_by: str) -> None:
        if lane not in self._registered:
            await self._store.commit(
                create.REGISTER_LANE(lane_id=lane, registered_by=registered_by)
            )
            self._registered.add(lane)

    async def set_lane_state(self, lane: str, state: LaneState | str) -> None:
        """Sets active, paused (no claims), draining (no new executions) or disabled (neither)."""
        try:
            wanted = LaneState(state)
        except ValueError:
            raise invalid("state", "active, paused, draining or disabled", state) from None
        await self.register(lane_id(lane), "operator")
        await self._store.commit(create.SET_LANE_STATE(lane_id=lane, state=wanted.value))

    async def pause_lane(self, lane: str) -> None:
        await self.set_lane_state(lane, LaneState.PAUSED)

    async def resume_lane(self, lane: str) -> None:
        await self.set_lane_state(lane, LaneState.ACTIVE)

    async def drain_lane(self, lane: str) -> None:
        await self.set_lane_state(lane, LaneState.DRAINING)

    async def read_lane(self, lane: str) -> Lane | None:
        return await load_one(self._store, Get("ff_lane_registry", (lane_id(lane),)), Lane)

    async def list_lanes(self, cursor: str | None = None, limit: int = 1_000) -> Page[str]:
        size = validation.limit(limit, 10_000)
        after = None if cursor is None else (lane_id(cursor, "cursor"),)
        read = Scan("lanes", after=after, limit=size + 1, columns=("lane_id",))
        return Page(*full_page(await load_all(self._store, read, str), size))
