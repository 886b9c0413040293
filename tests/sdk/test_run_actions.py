"""Handles from uuids, actions on one run, and actions on all that match."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any
from uuid import UUID, uuid4

import pytest

from flowfabric import App, Context, Engine, Fatal
from flowfabric.errors import ConfigError, EngineError, NotFound, ValidationError
from flowfabric.sdk.bulk import BulkProgress, BulkRun
from flowfabric.testing import ManualClock

from .helpers import worked_off

pytestmark = pytest.mark.usefixtures("declared")


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def declared(app: App, calls: list[str]) -> None:
    async def noted(name: str) -> str:
        calls.append(name)
        return name

    @app.task(lane="sums")
    async def double(n: int) -> int:
        return 2 * n

    @app.task(lane="mail")
    async def send(to: str) -> None:
        raise Fatal(f"no mailbox: {to}")

    @app.task
    async def steps(ctx: Context) -> str:
        found = [await ctx.step(name, noted, name) for name in ("a", "b", "c")]
        return "".join(found)


# ---- ids


async def test_a_uuid_names_a_run(app: App, engine: Engine) -> None:
    run = await app.named("double").submit(4)
    await worked_off(app)
    assert str(run) == str(run.id.uuid)
    for given in (str(run), run.id.uuid, str(run).upper(), str(run.id), run.id):
        found = app.run(given, "double")
        assert str(found) == str(run)
        assert await found.result() == 8
        assert found.id == run.id
    assert await app.run(str(run)).resolve() == run.id


async def test_every_call_of_a_run_named_by_its_uuid_looks_it_up(app: App, engine: Engine) -> None:
    text = str(await app.named("double").submit(4))
    calls = ("state", "outcome", "info", "progress", "why", "waitpoints", "release", "cancel")
    for call in calls:
        await _allowed(getattr(app.run(text), call))
    history = [entry.what async for entry in app.run(text).history()]
    assert history[:1] == ["created"] and history[-1:] == ["ended"]
    assert [frame async for frame in app.run(text).stream()] == []


async def _allowed(call: Any) -> None:
    """It is carried out, or refused for the state of the run."""
    try:
        await call()
    except NotFound:
        raise
    except EngineError:
        return


async def test_the_full_id_of_a_run_named_by_its_uuid_is_known_after_a_call(
    app: App, engine: Engine
) -> None:
    submitted = await app.named("double").submit(4)
    run = app.run(submitted.id.uuid)
    with pytest.raises(ConfigError, match=rf"run {submitted}: .*await run.resolve\(\)"):
        _ = run.id
    assert await run.state() == "waiting"
    assert run.id == submitted.id


async def test_an_unknown_uuid_is_not_found_and_other_text_is_refused(
    app: App, engine: Engine
) -> None:
    with pytest.raises(NotFound, match="execution"):
        await app.run(uuid4()).state()
    for text in ("", "ship", "{fp:1}:ship", "01a1f5a8"):
        with pytest.raises(ValidationError, match="id: the uuid of a run, or its full id"):
            app.run(text)


# ---- one run


async def test_a_waiting_run_is_moved_and_a_delayed_one_released(app: App, engine: Engine) -> None:
    moved = await app.named("double").submit(1, lane="idle")
    delayed = await app.named("double").submit(2, delay="3650d")
    assert await worked_off(app) == 0
    await moved.move("sums", "its lane has no worker")
    await delayed.release("now")
    assert await worked_off(app) == 2
    assert [await moved.result(), await delayed.result()] == [2, 4]
    assert (await moved.info()).lane == "sums"


async def test_an_ended_run_is_deleted(app: App, engine: Engine) -> None:
    run = await app.named("double").submit(1)
    with pytest.raises(EngineError):
        await run.delete()
    await worked_off(app)
    await run.delete("a test")
    with pytest.raises(NotFound):
        await run.info()


async def test_a_run_is_restarted_from_a_step(app: App, engine: Engine, calls: list[str]) -> None:
    run = await app.named("steps").submit()
    await worked_off(app)
    await run.restart(from_step="b", reason="b was wrong")
    await worked_off(app)
    assert await run.result() == "abc"
    assert calls == ["a", "b", "c", "b", "c"]


# ---- all that match


async def carried_out(engine: Engine, starting: Awaitable[BulkRun]) -> BulkProgress:
    """The job is run by an engine on the store, as a server does."""
    job = await starting
    await engine.run_bulk(job.id, 100)
    return await job.wait("30s")


async def test_wait_carries_the_job_out(app: App, engine: Engine) -> None:
    await app.named("double").submit_many([1, 2, 3])
    found = await (await app.bulk("cancel", task="double")).wait("30s")
    assert (found.state, found.changed) == ("completed", 3)


async def test_an_action_applies_to_all_that_match(app: App, engine: Engine) -> None:
    runs = await app.named("double").submit_many([1, 2, 3])
    other = await app.named("send").submit("ann")
    job = await app.bulk("cancel", task="double", state="waiting", reason="not needed")
    await engine.run_bulk(job.id)
    found = await job.wait("30s")
    assert (found.state, found.matched, found.changed, found.refused) == ("completed", 3, 3, 0)
    assert [await run.state() for run in runs] == ["cancelled"] * 3
    assert {(await run.info()).cancel_reason for run in runs} == {"not needed"}
    assert await other.state() == "waiting"
    assert await app.bulk.job(job.id).progress() == await app.bulk.job(str(job.id)).progress()
    assert (await job.stop()).state == "completed"


async def test_failed_runs_are_retried_moved_and_deleted(app: App, engine: Engine) -> None:
    send = app.named("send")
    runs = await send.submit_many(["ann", "bob"])
    await worked_off(app)
    assert (await carried_out(engine, app.bulk("retry", state="failed"))).changed == 2
    assert (await carried_out(engine, app.bulk("move", to="idle", task=send))).changed == 2
    assert (await carried_out(engine, app.bulk("priority", to=9, lane="idle"))).changed == 2
    assert [(i.lane, i.priority) for i in await app.runs(task=send)] == [("idle", 9)] * 2
    assert await worked_off(app) == 0
    await carried_out(engine, app.bulk("move", to="mail", lane="idle"))
    assert await worked_off(app) == 2
    assert (await carried_out(engine, app.bulk("delete", task="send"))).changed == 2
    for run in runs:
        with pytest.raises(NotFound):
            await run.state()


async def test_a_dry_run_changes_nothing(app: App, engine: Engine) -> None:
    await app.named("double").submit_many([1, 2])
    found = await carried_out(engine, app.bulk("cancel", lane="sums", dry_run=True))
    assert (found.matched, found.changed) == (2, 0)
    assert (await app.counts()).by_state == {"waiting": 2}


async def test_a_job_that_is_stopped_changes_nothing_more(app: App, engine: Engine) -> None:
    run = await app.named("double").submit(1)
    job = await app.bulk("cancel", lane="sums")
    assert (await job.progress()).state == "running"
    assert (await job.stop()).state == "stopped"
    assert (await job.wait()).changed == 0
    assert await run.state() == "waiting"


async def test_an_action_is_limited_to_the_namespace_of_its_app(app: App, engine: Engine) -> None:
    other = App("memory://", engine=engine, namespace="other")

    @other.task
    async def elsewhere() -> None:
        return None

    run, own = await elsewhere.submit(), await app.named("double").submit(1)
    assert (await carried_out(engine, app.bulk("cancel", state="waiting"))).changed == 1
    assert [await run.state(), await own.state()] == ["waiting", "cancelled"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"action": "cancel"}, "bulk cancel: give at least one condition"),
        ({"action": "burn", "state": "failed"}, "action: one of cancel, retry"),
        ({"action": "move", "state": "waiting"}, "to: the new lane"),
        ({"action": "priority", "state": "waiting", "to": "high"}, "to: the new priority"),
        ({"action": "cancel", "state": "waiting", "to": 3}, "to: only for the actions"),
        ({"action": "cancel", "colour": "red"}, "bulk: colour: unknown option"),
    ],
)
async def test_a_wrong_bulk_action_is_refused(
    app: App, engine: Engine, given: dict[str, Any], said: str
) -> None:
    with pytest.raises((ConfigError, ValidationError), match=said):
        await app.bulk(**given)


async def test_an_unknown_job_is_not_found(app: App, engine: Engine, clock: ManualClock) -> None:
    for call in (app.bulk.job(uuid4()).progress, app.bulk.job(UUID(int=1)).wait):
        with pytest.raises(NotFound, match="bulk job"):
            await call()
    with pytest.raises(ValidationError, match="id: the id of a bulk job"):
        app.bulk.job("x")
