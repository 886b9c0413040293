"""What a type checker knows about the code of a user. `make check` runs mypy over this file."""

from __future__ import annotations

from typing import assert_type

from flowfabric import App, Context, sync

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
