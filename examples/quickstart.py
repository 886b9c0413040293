"""A task that is retried, and one that keeps its completed steps while it waits."""

import asyncio

from flowfabric import App, Context, OpenWaitpoint, Retry, Worker

app = App("sqlite:///quickstart.db")


@app.task(retry=Retry(max=5, base="100ms", on=ConnectionError))
async def greet(ctx: Context, name: str) -> str:
    if ctx.attempt == 0:
        raise ConnectionError("the line is busy")  # retried 100 ms later
    return f"Hello, {name}!"


async def ask(link: OpenWaitpoint) -> None:
    """Mail the link to an approver; here the answer is yes at once."""
    run = app.run(link.run)
    await run.signal("approved", source="ann", waitpoint=link.waitpoint_id, token=link.token)


@app.task
async def release(ctx: Context, version: str) -> str:
    # A step runs once, even if the process dies right after it.
    image = await ctx.step("build", lambda: f"image-{version}")
    # Waiting holds no worker. A rejection raises Rejected.
    decision = await ctx.approval("go-live", timeout="24h", notify=ask)
    await ctx.sleep("1s")  # or 30 days
    return f"{image} is live, approved by {decision.by}"


async def main() -> None:
    # Or start workers elsewhere: flowfabric worker examples/quickstart.py
    async with app, Worker(app):
        hello = await greet.submit("world")
        ship = await release.submit("1.0", key="release-1.0")  # the same key is the same run
        print(await hello.result())
        print(await ship.result())


if __name__ == "__main__":
    asyncio.run(main())
