"""`flowfabric lanes` and `flowfabric workers`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated

import typer
from msgspec import to_builtins

from flowfabric.cli import tables, text
from flowfabric.cli.database import Database
from flowfabric.cli.exits import Exit
from flowfabric.cli.identify import not_found
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.model.execution import Lane
from flowfabric.model.state import LaneState
from flowfabric.model.worker import WorkerInfo

MAX_LANES = 1_000
STATES = ("waiting", "delayed", "active", "suspended", "failed")
LaneArgument = Annotated[str, typer.Argument(metavar="LANE", help="The lane.")]
DONE = {
    LaneState.PAUSED: "paused: it accepts executions and starts none",
    LaneState.ACTIVE: "active",
    LaneState.DRAINING: "draining: it starts what waits and accepts no more",
}


def list_lanes(database: Database, as_json: text.JsonLines = False) -> int:
    """Lists the lanes with their states and their executions."""
    lanes, counts, now = database.read(_lanes)
    if as_json:
        for lane in lanes:
            own = {state: counts[lane.lane_id, state] for state in STATES}
            text.print_json({**to_builtins(lane), "executions": own})
    elif lanes:
        rows: list[tuple[tables.Cell, ...]] = [
            (
                lane.lane_id,
                lane.state,
                tables.ago(lane.updated_at_ms, now),
                *(counts[lane.lane_id, state] for state in STATES),
            )
            for lane in lanes
        ]
        tables.print_table(("lane", "state", "since", *STATES), rows)
    else:
        text.show("no lanes")
    return Exit.DONE


async def _lanes(engine: EngineProtocol) -> tuple[list[Lane], Counter[tuple[str, str]], int]:
    names = (await engine.list_lanes(limit=MAX_LANES)).items
    found = [await engine.read_lane(name) for name in names]
    counts: Counter[tuple[str, str]] = Counter()
    counted = await engine.count_executions()
    for each in counted.counts:
        counts[each.lane_id, each.public_state] += each.count
    return [lane for lane in found if lane is not None], counts, counted.counted_at


def pause_lane(lane: LaneArgument, database: Database) -> int:
    """Pauses a lane: it accepts executions and starts none."""
    return _set(lane, LaneState.PAUSED, database)


def resume_lane(lane: LaneArgument, database: Database) -> int:
    """Resumes a lane that is paused or draining."""
    return _set(lane, LaneState.ACTIVE, database)


def drain_lane(lane: LaneArgument, database: Database) -> int:
    """Drains a lane: it starts what waits and accepts no more."""
    return _set(lane, LaneState.DRAINING, database)


def _set(lane: str, state: LaneState, database: Database) -> int:
    async def work(engine: EngineProtocol) -> None:
        if await engine.read_lane(lane) is None:
            raise not_found("lane", lane)
        change = {
            LaneState.PAUSED: engine.pause_lane,
            LaneState.ACTIVE: engine.resume_lane,
            LaneState.DRAINING: engine.drain_lane,
        }[state]
        await change(lane)

    database.write(work)
    text.show(f"lane {text.clean(lane)} is {DONE[state]}")
    return Exit.DONE


def list_workers(
    database: Database,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="The namespace of the workers.")
    ] = "default",
    as_json: text.JsonLines = False,
) -> int:
    """Lists the live workers with their lanes and capabilities."""

    async def work(engine: EngineProtocol) -> tuple[list[WorkerInfo], int]:
        return (await engine.list_workers(namespace)).items, await engine.server_time_ms()

    workers, now = database.read(work)
    if as_json:
        for each in workers:
            text.print_json(to_builtins(each))
    elif workers:
        rows = [
            (
                each.worker_instance_id,
                each.worker_id,
                tables.ago(each.last_heartbeat_ms, now),
                tables.ago(each.registered_at_ms, now),
                ", ".join(each.lanes),
                ", ".join(each.capabilities),
            )
            for each in workers
        ]
        columns = ("instance", "worker", "heartbeat", "started", "lanes", "capabilities")
        tables.print_table(columns, rows)
    else:
        text.show(f"no live workers in namespace {text.clean(namespace)}")
    return Exit.DONE


COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_lanes,
    "pause": pause_lane,
    "resume": resume_lane,
    "drain": drain_lane,
}
