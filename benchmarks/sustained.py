"""Throughput over time, with retention and background loops running.

Each tenth is submitted in bulk and drained by concurrent workers. A level run has no tenth that is
slower than the first, and sizes that stop growing in the second half.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from benchmarks.engines import fill, opened
from benchmarks.report import Measured, percentile
from benchmarks.submit_claim_complete import worker
from benchmarks.valkey import keys, memory
from flowfabric import Engine, LoopSettings, Settings
from flowfabric.store.valkey.store import ValkeyStore

NAME = "sustained"
PORTIONS = 10
RETENTION_MS = 60_000
LOOPS = LoopSettings(retention_ms=5_000)
_SIZES = """SELECT sum(pg_table_size(oid))::bigint, sum(pg_indexes_size(oid))::bigint,
    sum(pg_stat_get_dead_tuples(oid))::bigint FROM pg_class
    WHERE relkind = 'r' AND relname LIKE 'ff\\_%'"""


class Sizes(Struct):
    """In bytes; of a SQLite file everything counts as tables."""

    tables: int
    indexes: int = 0
    dead_rows: int = 0
    keys: int = 0

    def __str__(self) -> str:
        mb = 1e6
        if self.keys:
            return f"memory {self.tables / mb:.0f} MB, {self.keys:,} keys"
        if not self.indexes:
            return f"file {self.tables / mb:.0f} MB"
        sizes = f"tables {self.tables / mb:.0f} MB, indexes {self.indexes / mb:.0f} MB"
        return f"{sizes}, {self.dead_rows:,} dead rows"


async def run(store: str, n: int, workers: int) -> list[Measured]:
    """Rate and latency of each tenth, the fill included in neither."""
    each = n // PORTIONS
    settings = Settings(retention_completed_ms=RETENTION_MS)
    found: list[Measured] = []
    async with opened(store, settings) as (engine, _):
        engine.with_scanners(LOOPS)
        for portion in range(1, PORTIONS + 1):
            await fill(engine, each)
            found.append(await _portion(engine, store, portion, each, workers))
            print(f"{found[-1].scenario}: {found[-1].ops_per_s:,.0f}/s, {found[-1].notes}")
    rates = [each.ops_per_s or 0.0 for each in found]
    found.append(
        Measured(
            scenario=f"{NAME}/last tenth by the first",
            store=store,
            system="flowfabric",
            n=n,
            ops_per_s=n / sum(each / rate for rate in rates),
            notes=f"{rates[-1] / rates[0]:.2f}",
        )
    )
    return found


async def _portion(engine: Engine, store: str, portion: int, each: int, workers: int) -> Measured:
    began = time.perf_counter()
    done = await asyncio.gather(*(worker(engine, k) for k in range(workers)))
    rate = each / (time.perf_counter() - began)
    samples = [seconds for one in done for seconds in one]
    assert len(samples) == each
    sizes = await _SIZES_OF[store](engine)
    return Measured(
        scenario=f"{NAME}/{portion} of {PORTIONS}",
        store=store,
        system="flowfabric",
        n=each,
        ops_per_s=rate,
        p50_ms=percentile(samples, 0.5),
        p99_ms=percentile(samples, 0.99),
        notes=f"longest {max(samples):.2f} s{f', {sizes}' if sizes else ''}",
    )


async def _postgres(engine: Engine) -> Sizes:
    return Sizes(*(await engine.store.execute_for_test(_SIZES))[0])  # type: ignore[attr-defined]


async def _sqlite(engine: Engine) -> Sizes:
    rows = await engine.store.execute_for_test(  # type: ignore[attr-defined]
        "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    )
    return Sizes(rows[0][0])


async def _valkey(engine: Engine) -> Sizes:
    assert isinstance(engine.store, ValkeyStore)
    port = engine.store.options.port
    return Sizes(await memory(port), keys=await keys(port))


async def _nothing(engine: Engine) -> None:
    return None


_SIZES_OF: dict[str, Callable[[Engine], Awaitable[Sizes | None]]] = {
    "postgres": _postgres,
    "sqlite": _sqlite,
    "memory": _nothing,
    "valkey": _valkey,
}
