"""What a cell gets from the base cell when it is registered: signing keys, and states of lanes."""

from __future__ import annotations

from itertools import starmap

from flowfabric.engine.engine import Engine
from flowfabric.engine.waits.signing_keys import KEYS
from flowfabric.model.execution import Lane
from flowfabric.model.signing_key import HmacKey
from flowfabric.rules.waits import signing_keys
from flowfabric.store.port import Scan

MAX_LANES = 10_000
_LANES = Scan("lanes", limit=MAX_LANES)


async def give(base: Engine, cell: Engine) -> None:
    """Keys and states that the cell has already stay as they are."""
    (keys, lanes), (own_keys, own_lanes) = [
        (await engine.store.load((KEYS, _LANES))).rows for engine in (base, cell)
    ]
    if not own_keys:
        copied = (signing_keys.copied(key) for key in starmap(HmacKey, keys))
        await cell.store.commit_many(list(copied))
    states = {lane.lane_id: lane.state for lane in starmap(Lane, own_lanes)}
    for lane in starmap(Lane, lanes):
        if lane.state != states.get(lane.lane_id, "active"):
            await cell.set_lane_state(lane.lane_id, lane.state)
