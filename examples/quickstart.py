"""A task that is retried, and one that keeps its completed steps while it waits."""

import asyncio

from flowfabric import App, Context, OpenWaitpoint, Retry, Worker

app = App("sqlite:///quickstart.db")


@app.task(retry=Retry(max=5, base="100ms", on=ConnectionError))
async def greet(ctx: Context, name: str) -> str:
    if ctx.attempt == 0:
        raise ConnectionError("the line is busy")  # tried again 100 ms later
    return f"Hello, {name}!"


async def ask(
    link: OpenWaitpoint,
) -> None:  # mail the link, if you have somebody to ask; here the answer is yes
    await app.run(link.run).signal(
        "approved", source="ann", waitpoint=link.waitpoint_id, token=link.token
    )


@app.task
async def release(ctx: Context, version: str) -> str:
    image = await ctx.step(
        "build", lambda: f"image-{version}"
    )  # runs once, even if the process dies right after
    decision = await ctx.approval(
        "go-live", timeout="24h", notify=ask
    )  # holds no worker; a rejection raises Rejected
    await ctx.sleep("1s")  # or 30 days
    return f"{image} is live, approved by {decision.by}"


async def main() -> None:
    async with (
        app,
        Worker(app),
    ):  # or start workers elsewhere: flowfabric worker examples/quickstart.py
        hello = await greet.submit("world")
        ship = await release.submit("1.0", key="release-1.0")  # the same key again is the same run
        print(await hello.result())
        print(await ship.result())


if __name__ == "__main__":
    asyncio.run(main())
