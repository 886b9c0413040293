"""What a type checker knows about the code of a user. `make check` runs mypy over this file."""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_type
from uuid import UUID

from flowfabric import App, Context, Flow, Progress, Run, RunInfo, RunPage, sync
from flowfabric.sdk.flow import FlowBuilder

app = App("memory://")


@app.task
async def double(n: int) -> int:
    return 2 * n


def parse(text: str, base: int = 10) -> int:
    return int(text, base)


async def fetch(url: str) -> bytes:
    return url.encode()


@app.task(lane="web", timeout="10s")
async def work(ctx: Context, url: str) -> str:
    assert_type(await ctx.step("parse", parse, "1"), int)
    assert_type(await ctx.step("fetch", fetch, url), bytes)
    await ctx.step("wrong", parse, 1)  # type: ignore[call-overload]
    await ctx.children(double.call(1))
    await ctx.sleep("1s")
    decision = await ctx.approval("ok")
    assert_type(decision.approved, bool)
    return url


@app.task
def plain(ctx: sync.Context, n: int) -> int:
    assert_type(ctx.step("parse", parse, "1"), int)
    assert_type(ctx.step("fetch", fetch, "u"), bytes)
    ctx.sleep("1s")
    return n


async def operate() -> None:
    page = await app.runs(state="failed", task=double, created="1h", limit=10)
    assert_type(page, RunPage[RunInfo])
    assert_type(page.next_cursor, str | None)
    async for info in app.runs.all(state=["failed", "expired"], ended=("2h", "1h")):
        assert_type(info, RunInfo)
        assert_type(info.created_at, datetime)
        assert_type(info.progress, Progress | None)
        assert_type(await info.run.progress(), Progress | None)
    await app.runs(colour="red")  # type: ignore[call-arg]
    assert_type((await app.counts()).by_state, dict[str, int])
    run = app.run("0198c0de-0000-7000-8000-000000000001")
    assert_type(await run.info(), RunInfo)
    await run.restart(from_step="parse")
    job = await app.bulk("cancel", task=double, dry_run=True)
    assert_type((await job.wait("10s")).changed, int)
    await app.bulk("burn", state="failed")  # type: ignore[arg-type]


async def flows(ident: UUID) -> None:
    async with app.flow("sums") as flow:
        flow.add(double, 1, node="one")
    assert_type(flow, FlowBuilder)
    assert_type(await flow.wait("10s"), str)
    assert_type(await flow.submit(), Flow)
    assert_type(app.flow(ident), Flow)
    assert_type(app.flow(id=str(ident)), Flow)
    assert_type((await app.flow(ident).describe()).members, dict[str, int])
    assert_type(await app.flow(ident).results(), dict[str, Any])
    async for info in app.flow(ident).runs():
        assert_type(info.run, Run[Any])
    await app.flow(ident).cancel("not needed")


async def main() -> None:
    run = await double.submit(1, key="k")
    assert_type(await run.result(), int)
    assert_type([await r.result() for r in await double.submit_many([1, 2])], list[int])
    assert_type(await (await plain.submit(1)).result(), int)


def blocking() -> None:
    there = sync.App("memory://")

    @there.task
    def hello(name: str) -> str:
        return name

    assert_type(hello.submit("x").result(), str)
    assert_type(hello.submit("x").state(), str)
    assert_type(there.runs(task=hello), RunPage[sync.RunInfo])
    for info in there.runs.all(state="failed"):
        assert_type(info.run, sync.Run[Any])
        assert_type(info.run.progress(), Progress | None)
    assert_type(there.flow(id="0198c0de-0000-7000-8000-000000000001"), sync.Flow)
    assert_type(there.flow("sums").submit().wait("10s"), str)
    assert_type(there.bulk("cancel", task=hello).wait().changed, int)
    assert_type(there.counts().total, int)
