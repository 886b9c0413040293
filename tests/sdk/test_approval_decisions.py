"""Approvals: one rejection ends the wait, other signal names are refused."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec import Struct

from flowfabric import (
    App,
    Context,
    DeliverSignalArgs,
    Engine,
    OpenWaitpoint,
    Rejected,
    Retry,
    RunFailed,
    Worker,
)
from flowfabric.errors import EngineError, ValidationError
from flowfabric.loops.supervisor import Supervisor
from flowfabric.testing import ManualClock

from .helpers import handles

MINUTE_MS = 60_000


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


async def worked_off(app: App, lease: str = "30s") -> None:
    worker = Worker(app, lease=lease)
    try:
        await worker.run_until_idle()
    finally:
        await worker.stop()


async def say(app: App, link: OpenWaitpoint, name: str, who: str, comment: str = "") -> None:
    await app.run(link.run).signal(
        name, source=who, comment=comment, waitpoint=link.waitpoint_id, token=link.token
    )


@pytest.mark.meets("suspend", "step", "replay")
async def test_rejection_raises_and_fails_the_run_without_retry(app: App, engine: Engine) -> None:
    links: list[OpenWaitpoint] = []

    @app.task
    async def release(ctx: Context) -> str:
        decision = await ctx.approval("go-live", need=2, notify=links.append)
        return f"live, approved by {decision.by}"

    run = await release.submit()
    await worked_off(app)
    await say(app, links[0], "approved", "ann")
    await say(app, links[0], "rejected", "bob", "not today")
    await worked_off(app)
    with pytest.raises(RunFailed, match="rejected by bob: not today"):
        await run.result()
    await run.replay()
    await worked_off(app)
    assert await run.state() == "failed"


async def test_rejection_is_caught_or_returned_and_approval_names_its_source(
    app: App, engine: Engine
) -> None:
    links: list[OpenWaitpoint] = []

    @app.task
    async def release(ctx: Context) -> list[Any]:
        try:
            await ctx.approval("first", notify=links.append)
        except Rejected as error:
            first = error.decision
        second = await ctx.approval("second", notify=links.append, on_reject="return")
        third = await ctx.approval("third", notify=links.append)
        return [[d.approved, d.by, d.comment, len(d.answers)] for d in (first, second, third)]

    run = await release.submit()
    for name in ("rejected", "rejected", "approved"):
        await worked_off(app)
        await say(app, links[-1], name, "ann", "so")
    await worked_off(app)
    assert await run.result() == [
        [False, "ann", "so", 1],
        [False, "ann", "so", 1],
        [True, "ann", "so", 1],
    ]


@pytest.mark.parametrize("ahead", [True, False])
async def test_other_signal_names_are_refused_and_write_nothing(
    app: App, engine: Engine, *, ahead: bool
) -> None:
    refused: list[str] = []

    async def told(link: OpenWaitpoint) -> None:
        if ahead:  # the waitpoint is pending while its link is sent
            with pytest.raises(ValidationError, match="signal_name: one of approved, rejected"):
                await say(app, link, "yes", "ann")
            refused.append("yes")
        links.append(link)

    links: list[OpenWaitpoint] = []

    @app.task
    async def release(ctx: Context) -> bool:
        return (await ctx.approval("go-live", notify=told)).approved

    run = await release.submit()
    await worked_off(app)
    if not ahead:
        with pytest.raises(ValidationError, match="signal_name: one of approved, rejected"):
            await say(app, links[0], "yes", "ann")
    assert await run.state() == "suspended"
    await say(app, links[0], "approved", "ann")
    await worked_off(app)
    assert await run.result() is True


@pytest.mark.parametrize("source_type", ["engine", "operator", " Engine "])
async def test_a_token_cannot_carry_an_engine_source(
    app: App, engine: Engine, source_type: str
) -> None:
    links: list[OpenWaitpoint] = []

    @app.task
    async def ask(ctx: Context) -> str:
        return (await ctx.suspend("word", timeout="24h", notify=links.append))[0].name

    run = await ask.submit()
    await worked_off(app)
    forged = DeliverSignalArgs(
        execution_id=run.id,
        waitpoint_id=links[0].waitpoint_id,
        signal_id=uuid4(),
        waitpoint_token=links[0].token,
        signal_name="timeout",
        source_type=source_type,
        source_identity="suspension_timeout",
    )
    with pytest.raises(ValidationError, match="source_type"):
        await engine.deliver_signal(forged)
    await say(app, links[0], "timeout", "suspension_timeout")  # a name alone is no timeout
    await worked_off(app)
    assert await run.result() == "timeout"


class Terms(Struct):
    days: int


@pytest.mark.parametrize("notified", [True, False])
async def test_payload_of_another_type_is_refused_and_the_wait_continues(
    app: App, engine: Engine, *, notified: bool
) -> None:
    links: list[OpenWaitpoint] = []

    @app.task
    async def ask(ctx: Context) -> list[Any]:
        decision = await ctx.approval(
            "terms", notify=links.append if notified else None, payload=Terms
        )
        return [decision.comment, decision.answers[0].payload.days]

    run = await ask.submit()
    await worked_off(app)
    for bad in (None, {"days": "three"}, {}, 3):
        with pytest.raises(ValidationError, match="payload"):
            await run.signal("approved", bad)
    assert await run.state() == "suspended"
    assert (await run.waitpoints())[0].payload_schema is not None
    await run.signal("approved", {"days": 3}, comment="fine")
    await worked_off(app)
    assert await run.result() == ["fine", 3]


async def test_a_rejection_needs_no_payload(app: App, engine: Engine) -> None:
    @app.task
    async def ask(ctx: Context) -> bool:
        return (await ctx.approval("terms", payload=Terms, on_reject="return")).approved

    run = await ask.submit()
    await worked_off(app)
    await run.signal("rejected", comment="no")
    await worked_off(app)
    assert await run.result() is False


async def test_only_the_holder_of_the_lease_reads_the_token_of_its_waitpoint(
    app: App, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: list[str | None] = []
    claimed, made = handles(engine, monkeypatch), list[UUID]()

    @app.task
    async def own(ctx: Context) -> None:
        handle = claimed[ctx.execution_id]
        waitpoint = await engine.create_waitpoint(handle, "mine")
        made.append(waitpoint.waitpoint_id)
        tokens.extend(
            [waitpoint.hmac_token, await engine.read_held_waitpoint_token(handle, made[0])]
        )

    @app.task
    async def other(ctx: Context) -> None:
        handle = claimed[ctx.execution_id]
        tokens.append(await engine.read_held_waitpoint_token(handle, made[0]))

    run = await own.submit()
    await worked_off(app)
    await other.submit()
    await worked_off(app)
    assert tokens[0] == tokens[1] and tokens[2] is None
    with pytest.raises(EngineError):
        await engine.read_held_waitpoint_token(claimed[run.id], made[0])


@pytest.mark.meets("suspend", "quorum")
async def test_a_link_counts_once_whatever_name_is_typed(app: App, engine: Engine) -> None:
    links: list[OpenWaitpoint] = []

    @app.task
    async def release(ctx: Context) -> str:
        return (
            await ctx.approval("go", need=2, approvers=["ann", "bob", "cy"], notify=links.append)
        ).by

    run = await release.submit()
    await worked_off(app)
    assert [link.approver for link in links] == ["ann", "bob", "cy"]
    assert (
        len({link.token for link in links}) == 3 and len({link.waitpoint_id for link in links}) == 1
    )
    for typed in ("ann", "bob", "mallory"):
        await say(app, links[0], "approved", typed)
    await worked_off(app)
    assert await run.state() == "suspended"
    await say(app, links[2], "approved", "ann")
    await worked_off(app)
    assert sorted((await run.result()).split(", ")) == ["ann", "cy"]


@pytest.mark.meets("suspend", "retry", "quorum", "step")
@pytest.mark.parametrize("why", ["the mail is away", "too late"])
async def test_wait_and_its_signals_survive_a_new_attempt(
    app: App, engine: Engine, clock: ManualClock, why: str
) -> None:
    """The attempt ends between its waitpoint and its wait; the next one uses it or waits anew."""
    links: list[OpenWaitpoint] = []

    def told(link: OpenWaitpoint) -> None:
        links.append(link)
        if why == "the mail is away" and len(links) == 1:
            raise ConnectionError(why)
        if why == "too late" and len(links) == 2:
            clock.advance(MINUTE_MS + 2_000)

    @app.task(retry=Retry(max=1, backoff="fixed", base="1s"), timeout="1m")
    async def release(ctx: Context) -> list[str]:
        decision = await ctx.approval("go-live", need=2, approvers=["ann", "bob"], notify=told)
        return [answer.by for answer in decision.answers]

    run = await release.submit()
    await worked_off(app, lease="5m")
    assert await run.state() != "suspended"
    await say(app, links[0], "approved", "ann")
    clock.advance(1_000)
    loops = Supervisor(engine)
    for _ in range(2):
        await loops.run_once()
        clock.advance(1_000)
    await worked_off(app)
    assert (await run.state(), (await run.outcome()).total_attempt_count) == ("suspended", 2)
    assert len({link.waitpoint_id for link in links}) == 1
    await say(app, links[-1], "approved", "bob")
    await worked_off(app)
    assert await run.result() == ["ann", "bob"]
