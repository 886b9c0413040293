"""Children of a parent that ends, and parents whose children end."""

from __future__ import annotations

from typing import Any
from uuid import uuid5

import pytest
from msgspec import structs

from flowfabric import App, Context, Engine, Fatal, Run
from flowfabric.engine.flows.child_flows import ChildFlows
from flowfabric.errors import NotFound, StateError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.flow import SubmitFlowArgs
from flowfabric.model.flow_links import Parent
from flowfabric.model.lease import ClaimPolicy
from flowfabric.sdk.children import JOIN, family
from flowfabric.sdk.options import Options
from flowfabric.testing import ManualClock

from .helpers import worked_off

HOUR_MS = 3_600_000


class Household:
    """A parent of a waiting child, a waiting detached child, and a child with a waiting child."""

    def __init__(self, app: App) -> None:
        self.runs: list[str] = []
        self.fails = False

        @app.task
        async def waits(ctx: Context) -> str:
            await ctx.suspend("go on")
            return "done"

        @app.task
        async def middle(ctx: Context) -> list[str]:
            return await ctx.children(waits.call())

        @app.task
        async def parent(ctx: Context) -> list[Any]:
            self.runs.append(str(ctx.execution_id))
            if self.fails:
                raise Fatal("it gave up")
            return await ctx.children(waits.call(), waits.call(detached=True), middle.call())

        self.parent = parent


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


@pytest.fixture
def household(app: App) -> Household:
    return Household(app)


def child(parent: ExecutionId, at: int, name: str) -> ExecutionId:
    flow = family(parent, 0, "", ()).flow_id
    return ExecutionId.for_flow(flow, uuid5(flow, f"{at}:{name}" if name != JOIN else JOIN))


async def states(app: App, run: Run[Any]) -> list[str]:
    """Of the child, the detached child, the middle one, its child, and the two joins."""
    middle = child(run.id, 2, "middle")
    idents = [
        child(run.id, 0, "waits"),
        child(run.id, 1, "waits"),
        middle,
        child(middle, 0, "waits"),
    ]
    idents += [child(run.id, 0, JOIN), child(middle, 0, JOIN)]
    return [await app.run(str(ident)).state() for ident in idents]


async def kind(engine: Engine, ident: ExecutionId) -> str:
    found = await engine.parts.core.snapshots.execution(ident)
    assert found is not None
    return found.execution_kind


WAITING = ["suspended"] * 4 + ["waiting_children"] * 2
ENDED = ["cancelled", "suspended", "cancelled", "cancelled", "cancelled", "cancelled"]


@pytest.mark.meets("child", "cancel", "suspend")
async def test_cancel_reaches_children_and_grandchildren(
    app: App, engine: Engine, household: Household
) -> None:
    run = await household.parent.submit()
    await worked_off(app)
    assert await states(app, run) == WAITING
    await run.cancel("enough")
    assert await states(app, run) == ENDED
    outcomes = [
        await app.run(str(m.id)).outcome()
        for m in await engine.flow_members(family(run.id, 0, "", ()).flow_id)
    ]
    assert {o.reason for o in outcomes if o.public_state == "cancelled"} == {"parent_ended"}


@pytest.mark.meets("child", "suspend")
async def test_failed_parent_cancels_its_children(
    app: App, engine: Engine, household: Household
) -> None:
    run = await household.parent.submit()
    await worked_off(app)
    household.fails = True
    await engine.resume_execution(run.id)
    await worked_off(app)
    assert await run.state() == "failed"
    assert await states(app, run) == ENDED


@pytest.mark.meets("child", "cancel")
@pytest.mark.parametrize("end", ["complete", "complete_many", "fail", "cancel"])
async def test_children_without_a_wait_end_with_the_first_lease(
    app: App, engine: Engine, household: Household, end: str
) -> None:
    """The parent submits them and ends without waiting; a detached one continues."""
    run = await household.parent.submit()
    (work,) = await engine.claim_many(
        "default", app.capabilities, ClaimPolicy("w", "w-1", 60_000), 1
    )
    flow = family(run.id, 0, "", ()).flow_id
    kept, ended = ExecutionId.for_flow(flow), ExecutionId.for_flow(flow)
    parent = Parent(execution_id=run.id, waitpoint_key="children:0", detached=(kept,))
    nodes = [household.parent.creation(ident, b"{}", Options()) for ident in (kept, ended)]
    await engine.submit_flow(SubmitFlowArgs(flow_id=flow, nodes=nodes, parent=parent))
    match end:
        case "complete":
            await engine.complete(work.handle, b"null")
        case "complete_many":
            assert await engine.complete_many([(work.handle, b"null")]) == [None]
        case "fail":
            await engine.fail(work.handle, "boom", FailureClass.PERMANENT)
        case _:
            await engine.cancel(work.handle, "enough")
    assert [await app.run(str(ident)).state() for ident in (kept, ended)] == [
        "waiting",
        "cancelled",
    ]


@pytest.mark.meets("child", "crash", "cancel")
async def test_crash_after_the_last_child_ended_still_wakes_the_parent(
    app: App, engine: Engine, household: Household, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await household.parent.submit()
    await worked_off(app)

    async def died(*_: object) -> list[ExecutionId]:
        raise RuntimeError("the process died here")

    with monkeypatch.context() as patched:
        patched.setattr(ChildFlows, "cancel", died)
        await run.cancel()
    assert await run.state() == "cancelled"
    assert await states(app, run) == WAITING
    assert (await engine.cancel_orphans())[0] == 3
    assert await states(app, run) == ENDED
    assert (await engine.cancel_orphans())[0] == 0, "a detached child is no work for the reconciler"


@pytest.mark.meets("child", "crash", "cancel")
async def test_a_crash_before_the_parent_is_woken_loses_nothing(
    app: App,
    engine: Engine,
    household: Household,
    monkeypatch: pytest.MonkeyPatch,
    clock: ManualClock,
) -> None:
    run = await household.parent.submit()
    await worked_off(app)

    async def died(*_: object) -> None:
        raise RuntimeError("the process died here")

    with monkeypatch.context() as patched:
        patched.setattr(ChildFlows, "wake_parents", died)
        await engine.cancel_flow(family(run.id, 0, "", ()).flow_id)
    assert await run.state() == "suspended"
    clock.advance(2_000)
    assert await engine.dispatch_completions() > 0
    await worked_off(app)
    assert await run.state() == "failed"


@pytest.mark.meets("child", "suspend")
async def test_a_waiting_parent_is_not_run_in_between(
    app: App, engine: Engine, household: Household, clock: ManualClock
) -> None:
    run = await household.parent.submit()
    await worked_off(app)
    for _ in range(6):
        clock.advance(HOUR_MS)
        await engine.expire_suspension(run.id)
        await worked_off(app)
    assert household.runs == [str(run.id)]


@pytest.mark.meets("child", "cancel", "flow")
async def test_parent_is_woken_when_its_join_was_cancelled(
    app: App, engine: Engine, household: Household
) -> None:
    run = await household.parent.submit()
    await worked_off(app)
    flow = family(run.id, 0, "", ()).flow_id
    members = await engine.flow_members(flow)
    (join,) = [m for m in members if await kind(engine, m.id) == JOIN]
    await engine.cancel_execution(CancelExecutionArgs(execution_id=join.id, reason=""))
    await worked_off(app)
    assert (await run.state(), household.runs) == ("suspended", [str(run.id)])
    for member in members:
        if member.id != join.id:
            await engine.cancel_execution(CancelExecutionArgs(execution_id=member.id, reason=""))
    await worked_off(app)
    assert await run.state() == "failed"


@pytest.mark.meets("child", "cancel", "replay")
async def test_a_replayed_parent_runs_its_cancelled_children_again(
    app: App, engine: Engine, household: Household
) -> None:
    run = await household.parent.submit()
    await worked_off(app)
    await run.cancel()
    await run.replay()
    await worked_off(app)
    assert (await run.state(), (await states(app, run))[:4]) == ("suspended", ["suspended"] * 4)
    await run.cancel()
    assert (await states(app, run))[:4] == ENDED[:4]


@pytest.mark.meets("child", "second_tenant")
async def test_a_parent_must_be_unfinished_and_of_the_same_namespace(
    app: App, engine: Engine, household: Household
) -> None:
    run = await household.parent.submit()
    flow = family(run.id, 7, "", ()).flow_id

    def asked(namespace: str) -> SubmitFlowArgs:
        made = household.parent.creation(ExecutionId.for_flow(flow), b"{}", Options())
        node = structs.replace(made, namespace=namespace)
        parent = Parent(execution_id=run.id, waitpoint_key="children:7")
        return SubmitFlowArgs(flow_id=flow, nodes=[node], namespace=namespace, parent=parent)

    with pytest.raises(NotFound, match="parent"):
        await engine.submit_flow(asked("other"))
    await run.cancel()
    with pytest.raises(StateError, match="has ended"):
        await engine.submit_flow(asked("default"))
