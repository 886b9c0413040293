"""Work in 1, 3 and 30 cells of a cluster, and claims beside the backlog of another cell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from msgspec import Struct
from tests.valkey_cluster import PRIMARIES, Cluster

from benchmarks.engines import BULK, LANE, creations
from benchmarks.report import Measured, percentile
from benchmarks.submit_claim_complete import worker
from benchmarks.valkey import APPEND_FILE
from flowfabric import ClaimPolicy
from flowfabric.connect import ValkeyBackend
from flowfabric.engine.cells.cells_engine import CellsEngine

NAME = "cells"
LEVELS = (1, 3, 30)
ROUNDS = 4
BACKLOG = 100_000
CLAIMS = 500
IDLE_S = 2.0
PATIENT = ("--cluster-node-timeout", "30000")
"""A server that is slow for a moment is not failed over."""


class Spent(Struct, frozen=True):
    """Processor time of the primaries, without what they use when idle, and seconds."""

    server_s: float
    wall_s: float


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """`workers` are those of each cell, so that as many calls share a round trip."""
    if store != "valkey":
        raise SystemExit(f"{NAME}: --store valkey is accepted")
    with Cluster(*APPEND_FILE, *PATIENT, folder=Path()) as cluster:
        engine = await ValkeyBackend.connect(cluster.url_of("bench"))
        try:
            names = await _names(engine, cluster)
            idle = await _idle_rate(cluster)
            spent: dict[int, list[Spent]] = {level: [] for level in LEVELS}
            for at in range(ROUNDS + 1):
                for level in LEVELS:
                    used = await _lives(engine, cluster, names[:level], n // ROUNDS, workers, idle)
                    if at:  # the first round loads the functions of every server
                        spent[level].append(used)
            found = _levels(store, n // ROUNDS, spent)
            return [*found, *await _beside_backlog(store, engine, cluster)]
        finally:
            await engine.close()


async def _names(engine: CellsEngine, cluster: Cluster) -> list[str]:
    """Namespaces whose cells lie on the primaries in turn."""
    found: dict[int, list[str]] = {}
    at = 0
    while len(found) < PRIMARIES or min(map(len, found.values())) < LEVELS[-1] // PRIMARIES:
        name, at = f"tenant-{at}", at + 1
        found.setdefault(cluster.owner(f"bench/{name}").port, []).append(name)
    names = [name for several in zip(*found.values(), strict=False) for name in several]
    for name in names[: LEVELS[-1]]:
        await engine.cells.registered(name)
    return names[: LEVELS[-1]]


async def _idle_rate(cluster: Cluster) -> float:
    before = _server_s(cluster)
    await asyncio.sleep(IDLE_S)
    return (_server_s(cluster) - before) / IDLE_S


def _server_s(cluster: Cluster) -> float:
    used = 0.0
    for node in cluster.nodes[:PRIMARIES]:
        found = node.facts("INFO", "cpu")
        used += float(found["used_cpu_user"]) + float(found["used_cpu_sys"])
    return used


async def _lives(
    engine: CellsEngine, cluster: Cluster, names: Sequence[str], n: int, workers: int, idle: float
) -> Spent:
    before, began = _server_s(cluster), time.perf_counter()
    await asyncio.gather(*(_fill(engine, name, n // len(names)) for name in names))
    await asyncio.gather(
        *(worker(engine.cells.cell(name), at, name) for name in names for at in range(workers))
    )
    wall = time.perf_counter() - began
    return Spent(_server_s(cluster) - before - idle * wall, wall)


async def _fill(engine: CellsEngine, name: str, n: int) -> None:
    for at in range(0, n, BULK):
        await engine.create_executions(creations(min(BULK, n - at), name))


def _levels(store: str, n: int, spent: dict[int, list[Spent]]) -> list[Measured]:
    single = [each.server_s for each in spent[1]]
    found = []
    for level, rounds in spent.items():
        ratio = median(each.server_s / one for each, one in zip(rounds, single, strict=True))
        per_execution = median(each.server_s for each in rounds) / n * 1e6
        found.append(
            Measured(
                scenario=f"{NAME}/{level}",
                store=store,
                system="flowfabric",
                n=n,
                ops_per_s=median(n / each.wall_s for each in rounds),
                notes=f"{per_execution:.0f} us of the servers each, {ratio:.2f} of one cell",
            )
        )
    return found


async def _beside_backlog(store: str, engine: CellsEngine, cluster: Cluster) -> list[Measured]:
    """Claims in turn from a cell that shares its server with a backlog, and from one that does
    not.
    """
    beside, full = _on(cluster, 0)
    alone, _ = _on(cluster, 1)
    for name in (beside, alone):
        await _fill(engine, name, CLAIMS)
    await _fill(engine, full, BACKLOG)
    await asyncio.sleep(IDLE_S)
    samples: dict[str, list[float]] = {beside: [], alone: []}
    for _ in range(CLAIMS):
        for name, seconds in samples.items():
            seconds.append(await _claim(engine, name))
    ratio = percentile(samples[beside], 0.5) / percentile(samples[alone], 0.5)
    return [
        Measured(
            scenario=f"{NAME}/claim-{what}",
            store=store,
            system="flowfabric",
            n=CLAIMS,
            p50_ms=percentile(samples[name], 0.5),
            p99_ms=percentile(samples[name], 0.99),
            notes=notes,
        )
        for what, name, notes in (
            ("alone", alone, None),
            ("beside-backlog", beside, f"p50 {ratio:.2f} times, beside {BACKLOG:,} queued"),
        )
    ]


def _on(cluster: Cluster, at: int) -> tuple[str, str]:
    """Two namespaces whose cells lie on this primary."""
    owner = cluster.nodes[at].port
    names = (f"near-{n}" for n in range(1_000))
    found = (name for name in names if cluster.owner(f"bench/{name}").port == owner)
    return next(found), next(found)


async def _claim(engine: CellsEngine, name: str) -> float:
    policy = ClaimPolicy("bench", "bench-1", 30_000, None, name)
    began = time.perf_counter()
    works = await engine.claim_many(LANE, (), policy, 1)
    seconds = time.perf_counter() - began
    assert len(works) == 1
    return seconds
