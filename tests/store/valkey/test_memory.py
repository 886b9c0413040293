"""The memory of a server: payloads apart from hot fields, retention that keeps it level, and what
happens when it is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from glide import GlideClient, GlideClientConfiguration, NodeAddress

from flowfabric.connect import valkey_engine
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.errors import TransportError
from flowfabric.ids import ExecutionId
from flowfabric.loops.upkeep import RetentionTrimmer
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.store.valkey.lua_schema import TABLE_CODES, code
from flowfabric.store.valkey.options import options_of
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing import ManualClock
from flowfabric.testing.valkey import ValkeyServer
from tests.patience import patient

EXEC = TABLE_CODES["ff_exec_core"].encode()
LANE = "lane"
POLICY = ClaimPolicy("worker", "instance", 30_000)
RETENTION_MS = 60_000
ROUND, ROUNDS = 30, 4
LARGE = b"x" * 10_000


@asynccontextmanager
async def opened(
    clock: ManualClock, *options: str
) -> AsyncIterator[tuple[Engine, GlideClient, bytes]]:
    """An engine on a server of its own, a client of that server, and the prefix of the cell."""
    with ValkeyServer(*options) as server:
        store = ValkeyStore(options_of(server.url), clock=clock)
        client = await GlideClient.create(
            GlideClientConfiguration([NodeAddress("127.0.0.1", server.port)])
        )
        engine = valkey_engine(await store.open(), Settings(retention_completed_ms=RETENTION_MS))
        yield engine, client, f"{store.options.prefix}:".encode()
        await engine.close()
        await client.close()


async def submit(engine: Engine, payload: bytes = b"p") -> ExecutionId:
    ident = ExecutionId.solo(LANE)
    await engine.create_execution(
        CreateExecutionArgs(execution_id=ident, lane_id=LANE, input_payload=payload)
    )
    return ident


async def test_a_payload_and_a_result_are_kept_apart_from_the_hot_fields(
    clock: ManualClock,
) -> None:
    async with opened(clock) as (engine, client, prefix):
        small, large = await submit(engine), await submit(engine, LARGE)
        works = await engine.claim_many(LANE, (), POLICY, 2)
        assert {work.execution_id: work.input_payload for work in works} == {
            small: b"p",
            large: LARGE,
        }
        for work in works:
            await engine.complete(work.handle, LARGE)
        rows = await _keys(client, prefix + EXEC)
        assert len(rows) == 2
        sizes = set()
        for key in rows:
            fields = await client.hgetall(key)
            assert not {code("payload").encode(), code("result").encode()} & set(fields)
            assert await client.object_encoding(key) == b"listpack"
            sizes.add(await client.custom_command(["MEMORY", "USAGE", key, "SAMPLES", "0"]))
        assert len(sizes) == 1
        apart = [await client.hgetall(key) for key in await _keys(client, prefix + b"L" + EXEC)]
        assert sorted(len(each[code("payload").encode()]) for each in apart) == [1, len(LARGE)]
        assert [each[code("result").encode()] for each in apart] == [LARGE, LARGE]


async def _keys(client: GlideClient, prefix: bytes) -> list[bytes]:
    """Of rows: the key of a table itself has nothing behind its code."""
    _, found = await client.scan(b"0", match=prefix + b"?*", count=1_000)
    return [key for key in found if isinstance(key, bytes)]


async def test_retention_keeps_the_number_of_keys_level(clock: ManualClock) -> None:
    async with opened(clock) as (engine, client, _):
        loop, counts = RetentionTrimmer(LoopSettings()), []
        for _ in range(ROUNDS):
            for _ in range(ROUND):
                await submit(engine, LARGE)
            works = await engine.claim_many(LANE, (), POLICY, ROUND)
            await engine.complete_many([(work.handle, LARGE) for work in works])
            full = await client.dbsize()
            clock.advance(RETENTION_MS + 1)
            assert await loop.run(engine) >= ROUND
            counts.append((full, await client.dbsize()))
        assert len({left for _, left in counts}) == 1
        assert all(full > left + ROUND for full, left in counts)


async def test_retention_makes_room_on_a_full_server(clock: ManualClock) -> None:
    async with opened(clock) as (engine, client, _):
        for _ in range(ROUND):
            await submit(engine, LARGE)
        works = await engine.claim_many(LANE, (), POLICY, ROUND)
        await engine.complete_many([(work.handle, LARGE) for work in works])
        await client.config_set({"maxmemory": "1"})
        with pytest.raises(TransportError, match="memory is full"):
            await submit(engine)
        clock.advance(RETENTION_MS + 1)
        engine.with_scanners(LoopSettings(retention_ms=20))
        async with patient(20):
            while await engine.read_execution_state(works[-1].execution_id):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert engine.loops.leads


async def test_a_full_server_still_reads_and_continues_when_there_is_room(
    clock: ManualClock,
) -> None:
    async with opened(clock, "--enable-debug-command", "local") as (engine, client, _):
        made = [await submit(engine)]
        (work,) = await engine.claim_many(LANE, (), POLICY, 1)
        await client.config_set({"maxmemory": str(await _used(client) + 2_000_000)})
        refused: list[ExecutionId] = []
        kind = None
        while not refused and len(made) < 1_000:
            ident = ExecutionId.solo(LANE)
            args = CreateExecutionArgs(execution_id=ident, lane_id=LANE, input_payload=LARGE)
            try:
                await engine.create_execution(args)
            except TransportError as error:
                refused.append(ident)
                kind = error.backend_kind
            else:
                made.append(ident)
        assert len(made) > 50 and kind == "full"
        before = await client.custom_command(["DEBUG", "DIGEST"])
        for change in (
            lambda: engine.complete(work.handle),
            lambda: engine.claim_many(LANE, (), POLICY, 1),
            lambda: engine.renew(work.handle),
        ):
            with pytest.raises(TransportError, match="memory is full"):
                await change()
        assert await client.custom_command(["DEBUG", "DIGEST"]) == before
        assert await engine.read_execution_state(made[-1]) == "waiting"
        assert await engine.read_execution_state(refused[0]) is None
        await client.config_set({"maxmemory": "0"})
        await engine.complete(work.handle)
        assert len(await engine.claim_many(LANE, (), POLICY, 100)) == min(100, len(made) - 1)


async def _used(client: GlideClient) -> int:
    found = await client.custom_command(["INFO", "memory"])
    assert isinstance(found, bytes)
    (line,) = (each for each in found.split(b"\r\n") if each.startswith(b"used_memory:"))
    return int(line.partition(b":")[2])
