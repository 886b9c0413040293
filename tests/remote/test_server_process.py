"""Server processes: killed between commit and reply, drained, and two on one database."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flowfabric import App, Context, Worker
from flowfabric.connect import read_tables
from flowfabric.remote import transport
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of
from tests.remote.served import TOKEN
from tests.remote.servers import Thief, server
from tests.sdk.processes import DEADLINE_S, STORES, eventually, url_on

MANY = 200


def app_at(url: str, ran: list[int]) -> App:
    app = App(url, token=TOKEN)

    @app.task
    async def count(ctx: Context, n: int) -> int:
        ran.append(n)
        return await ctx.step("double", _double, n)

    async def _double(n: int) -> int:
        return 2 * n

    return app


def holds(url: str) -> bool:
    """Every invariant of the store."""
    return not check(snapshot_of(read_tables(url, TABLES_READ)))


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    "call", ["create_execution", "claim_many", "record_step", "complete_many", "complete_and_claim"]
)
async def test_killed_between_commit_and_reply_there_is_one_effect(
    call: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_TRIES", 30)
    monkeypatch.setattr(transport, "FIRST_RETRY_S", 0.02)
    url, ran = await asyncio.to_thread(url_on, store, tmp_path), list[int]()
    with server(url, tmp_path) as target:
        await target.start()
        thief = Thief(target)
        async with thief.listening() as between, app_at(between, ran) as app:
            thief.wanted = f"/v1/engine/{call} ".encode()
            reviving = asyncio.create_task(_revive(thief, target))
            full = call == "complete_and_claim"
            async with Worker(app, lease="2s", concurrency=1 if full else 16):
                run = await app.tasks["count"].submit(21)
                assert await run.result(timeout=DEADLINE_S) == 42
            await reviving
        assert thief.stolen == 1
        assert await target.stop() == 0
    found = await asyncio.to_thread(read_tables, url, ["ff_exec_core", "ff_completion_event"])
    assert [len(rows) for rows in found.values()] == [1, 1]
    assert await asyncio.to_thread(holds, url)


async def _revive(thief: Thief, target: Any) -> None:
    await eventually(lambda: thief.stolen)
    await target.start()


@pytest.mark.parametrize("store", STORES)
async def test_a_server_stopped_under_load_loses_nothing(store: str, tmp_path: Path) -> None:
    url, ran = await asyncio.to_thread(url_on, store, tmp_path), list[int]()
    with server(url, tmp_path) as target:
        await target.start()
        async with app_at(target.url, ran) as app, Worker(app, lease="2s"):
            runs = await app.tasks["count"].submit_many([(n,) for n in range(MANY)])
            await eventually(lambda: len(ran) > MANY // 4)
            assert await target.stop() == 0
            await target.start()
            results = await asyncio.gather(*(run.result(timeout=DEADLINE_S) for run in runs))
        assert results == [2 * n for n in range(MANY)]
        assert await target.stop() == 0
    found = await asyncio.to_thread(read_tables, url, ["ff_completion_event"])
    assert len(found["ff_completion_event"]) == MANY
    assert await asyncio.to_thread(holds, url)


async def test_two_servers_on_one_postgres(tmp_path: Path) -> None:
    url = await asyncio.to_thread(url_on, "postgres", tmp_path)
    with server(url, tmp_path) as first, server(url, tmp_path) as second:
        await asyncio.gather(first.start(), second.start())
        async with (
            app_at(first.url, []) as submitting,
            app_at(second.url, []) as working,
            Worker(working, lease="2s"),
        ):
            runs = await submitting.tasks["count"].submit_many([(n,) for n in range(20)])
            results = await asyncio.gather(*(run.result(timeout=DEADLINE_S) for run in runs))
            assert results == [2 * n for n in range(20)]
            first.kill()
            run = await working.tasks["count"].submit(50)
            assert await run.result(timeout=DEADLINE_S) == 100
        assert await second.stop() == 0
