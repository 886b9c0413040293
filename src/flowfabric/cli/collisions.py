"""`flowfabric admin partition-collisions`: which lanes share a partition. Reads no database."""

from __future__ import annotations

import os

from flowfabric.cli.text import console
from flowfabric.errors import ConfigError
from flowfabric.ids import FLOW_PARTITIONS, ExecutionId, lane_id

ALONE = "\N{EM DASH}"
WATCH, ELEVATED = 0.05, 0.15
LANE_WIDTH = 16
ADVICE = (
    "  1. Rename one of the colliding lanes, at best while it is empty.",
    "  2. Merge lanes with little traffic into one; their tasks have different names.",
    "  3. Keep it: partitions matter only for sharded stores; one database holds all of them.",
)


def collisions(
    lanes: list[str], partitions: int = FLOW_PARTITIONS
) -> list[tuple[int, str, list[str]]]:
    """Each lane with its partition and the lanes that share it, by partition and lane."""
    found = {lane: ExecutionId.solo(lane, partitions=partitions).partition_index for lane in lanes}
    rows = [
        (at, lane, sorted(other for other, there in found.items() if there == at and other != lane))
        for lane, at in found.items()
    ]
    return sorted(rows)


def severity(share: float) -> str:
    if not share:
        return "Clean"
    return "Watch" if share < WATCH else "Elevated" if share <= ELEVATED else "Remediate"


def lanes_of(text: str) -> list[str]:
    lanes: list[str] = [lane_id(each.strip()) for each in text.split(",") if each.strip()]
    if not lanes:
        raise ConfigError("FF_LANES: expected at least one lane, separated by commas")
    double = next((lane for lane in lanes if lanes.count(lane) > 1), None)
    if double is not None:
        raise ConfigError(f"FF_LANES: {double!r:.70} is named twice")
    return lanes


def report(lanes: list[str]) -> list[str]:
    rows = collisions(lanes)
    colliding = sum(bool(others) for _, _, others in rows)
    share = colliding / len(rows)
    width = max(LANE_WIDTH, *map(len, lanes))
    lines = [
        "Partition collisions of the configured lanes",
        "",
        f"num_flow_partitions: {FLOW_PARTITIONS}",
        f"lanes configured:    {len(rows)}",
        f"lanes colliding:     {colliding} ({share * 100:.1f}%)",
        f"severity:            {severity(share)}",
        "",
        f"{'partition':<9} | {'lane':<{width}} | collides_with",
        *(f"{at:<9} | {lane:<{width}} | {', '.join(more) or ALONE}" for at, lane, more in rows),
    ]
    return [*lines, "", *ADVICE] if colliding else lines


def run() -> int:
    """Lists the lanes of FF_LANES that share a partition. Reads no database."""
    for line in report(lanes_of(os.environ.get("FF_LANES", "default"))):
        console.print(line, markup=False, soft_wrap=True)
    return 0
