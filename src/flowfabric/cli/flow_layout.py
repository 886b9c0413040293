"""Layered layout of a graph: layers by longest path, few crossings, edges bend around nodes.

Pure functions from names and pairs to positions.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

SWEEPS = 8
PLACEMENTS = 6
MAX_BENDS = 5_000


class Spot(NamedTuple):
    """A position in a layer: a node, or a bend of an edge that leaves this node."""

    layer: int
    node: str
    is_bend: bool = False


class Layout(Struct, frozen=True):
    """The spots of each layer from top to bottom, their heights, and the spots of each edge."""

    layers: list[list[Spot]]
    heights: dict[Spot, float]
    paths: dict[tuple[str, str], list[Spot]]

    def rows(self) -> dict[Spot, int]:
        """Heights as distinct integers from 0 within each layer, in the same order."""
        found: dict[Spot, int] = {}
        for layer in self.layers:
            last = None
            for spot in layer:
                row = round(self.heights[spot])
                last = found[spot] = row if last is None else max(row, last + 1)
        lowest = min(found.values(), default=0)
        return {spot: row - lowest for spot, row in found.items()}


def layout(nodes: Sequence[str], edges: Iterable[tuple[str, str]]) -> Layout:
    pairs = list(dict.fromkeys(edges))
    depth = depths(nodes, pairs)
    forward = [(up, down) for up, down in pairs if depth[up] < depth[down]]
    paths = _paths(forward, depth)
    layers: list[list[Spot]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    seen: set[Spot] = set()
    for spot in [
        *(Spot(depth[n], n) for n in nodes),
        *(spot for path in paths.values() for spot in path),
    ]:
        if spot not in seen:
            seen.add(spot)
            layers[spot.layer].append(spot)
    steps = list(dict.fromkeys(step for path in paths.values() for step in pairwise(path)))
    layers = ordered(layers, steps)
    return Layout(layers, _heights(layers, steps), paths)


def depths(nodes: Sequence[str], edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The longest path to each node. Nodes of a cycle, which no flow should have, come last."""
    leads_to: dict[str, list[str]] = {node: [] for node in nodes}
    waits = dict.fromkeys(nodes, 0)
    for up, down in edges:
        leads_to[up].append(down)
        waits[down] += 1
    depth = dict.fromkeys(nodes, 0)
    free = [node for node in nodes if not waits[node]]
    for node in free:
        for after in leads_to[node]:
            depth[after] = max(depth[after], depth[node] + 1)
            waits[after] -= 1
            if not waits[after]:
                free.append(after)
    done = set(free)
    last = max((depth[node] for node in free), default=-1) + 1
    return {node: depth[node] if node in done else last for node in nodes}


def _paths(
    edges: Sequence[tuple[str, str]], depth: dict[str, int]
) -> dict[tuple[str, str], list[Spot]]:
    """Edges of one node share their bends. With more than MAX_BENDS, edges are straight."""
    farthest: dict[str, int] = {}
    for up, down in edges:
        farthest[up] = max(farthest.get(up, 0), depth[down])
    bends = sum(max(last - depth[up] - 1, 0) for up, last in farthest.items())
    found = {}
    for up, down in edges:
        between = range(depth[up] + 1, depth[down]) if bends <= MAX_BENDS else ()
        found[up, down] = [
            Spot(depth[up], up),
            *(Spot(at, up, True) for at in between),
            Spot(depth[down], down),
        ]
    return found


def ordered(layers: list[list[Spot]], steps: Sequence[tuple[Spot, Spot]]) -> list[list[Spot]]:
    """Order each layer by the mean of its neighbours, alternating; keep the fewest crossings."""
    before, after = _neighbours(steps)
    best, fewest = [list(layer) for layer in layers], crossings(layers, steps)
    now = [list(layer) for layer in layers]
    for sweep in range(SWEEPS):
        if not fewest:
            break
        forth = sweep % 2 == 0
        near = before if forth else after
        place: dict[Spot, float] = {spot: at for layer in now for at, spot in enumerate(layer)}
        for layer in now if forth else reversed(now):
            layer.sort(key=lambda spot: _mean(spot, near, place))
            place.update((spot, index) for index, spot in enumerate(layer))
        count = crossings(now, steps)
        if count < fewest:
            best, fewest = [list(layer) for layer in now], count
    return best


def _mean(spot: Spot, neighbours: Mapping[Spot, list[Spot]], at: Mapping[Spot, float]) -> float:
    """The mean position of the neighbours; without any, the own position."""
    near = neighbours.get(spot, [spot])
    return sum(at[other] for other in near) / len(near)


def _neighbours(
    steps: Iterable[tuple[Spot, Spot]],
) -> tuple[dict[Spot, list[Spot]], dict[Spot, list[Spot]]]:
    before: dict[Spot, list[Spot]] = {}
    after: dict[Spot, list[Spot]] = {}
    for up, down in steps:
        before.setdefault(down, []).append(up)
        after.setdefault(up, []).append(down)
    return before, after


def crossings(layers: Sequence[Sequence[Spot]], steps: Iterable[tuple[Spot, Spot]]) -> int:
    """The number of crossing pairs of edges between neighbouring layers."""
    place = {spot: index for layer in layers for index, spot in enumerate(layer)}
    between: dict[int, list[tuple[int, int]]] = {}
    for up, down in steps:
        between.setdefault(up.layer, []).append((place[up], place[down]))
    found = 0
    for lines in between.values():
        lines.sort()
        passed: list[int] = []
        for _, end in lines:
            found += len(passed) - bisect_right(passed, end)
            insort(passed, end)
    return found


def _heights(
    layers: Sequence[Sequence[Spot]], steps: Iterable[tuple[Spot, Spot]]
) -> dict[Spot, float]:
    """Heights near the mean of the neighbours, at least 1 apart, in the given order."""
    before, after = _neighbours(steps)
    heights = {
        spot: index - (len(layer) - 1) / 2 for layer in layers for index, spot in enumerate(layer)
    }
    for turn in range(PLACEMENTS):
        neighbours = before if turn % 2 == 0 else after
        for layer in layers if turn % 2 == 0 else reversed(layers):
            wanted = [_mean(spot, neighbours, heights) for spot in layer]
            heights.update(zip(layer, _apart(wanted), strict=True))
    return heights


def _apart(wanted: Sequence[float]) -> list[float]:
    """The mean of pushing all values down and pushing all up; both keep order and distance."""
    down: list[float] = []
    for value in wanted:
        down.append(max(value, down[-1] + 1) if down else value)
    up: list[float] = []
    for value in reversed(wanted):
        up.append(min(value, up[-1] - 1) if up else value)
    return [(a + b) / 2 for a, b in zip(down, reversed(up), strict=True)]
