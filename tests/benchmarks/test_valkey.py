"""Rows that a benchmark writes to Valkey, and what it reads of a server."""

from __future__ import annotations

from benchmarks.clones import clone_valkey
from benchmarks.engines import LANE, creations
from benchmarks.timers import POLICY, SECRET, suspended_until

from benchmarks import valkey as bench
from flowfabric.connect import ValkeyBackend
from flowfabric.model.search import ExecutionFilter
from flowfabric.model.state import PublicState
from flowfabric.testing.valkey import ValkeyServer

COPIES = 3


async def test_clones_of_suspended_executions_are_found_and_counted() -> None:
    with ValkeyServer() as server:
        engine = await ValkeyBackend.connect(server.url)
        await engine.seed_waitpoint_hmac_secret("bench", SECRET)
        await engine.create_executions(creations(1))
        (work,) = await engine.claim_many(LANE, (), POLICY, 1)
        await suspended_until(engine, work, await engine.server_time_ms() + 1_000_000)
        before = await bench.calls(server.port), await bench.keys(server.port)
        await clone_valkey(engine.store, COPIES)
        after = await bench.calls(server.port), await bench.keys(server.port)
        assert after[0] > before[0] and after[1] > before[1]
        page = await engine.find_executions(ExecutionFilter(state=(PublicState.SUSPENDED,)), 10)
        assert len(page.items) == 1 + COPIES
        assert len((await engine.list_open_waitpoints()).items) == 1 + COPIES
        await engine.close()
