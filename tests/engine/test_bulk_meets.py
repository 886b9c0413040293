"""Bulk jobs and flows, children, limits and lanes."""

from __future__ import annotations

import pytest

from flowfabric.engine.bulk import bulk_actions
from flowfabric.engine.engine import Engine
from flowfabric.model.bulk import BulkState
from flowfabric.model.execution import ReplayExecutionArgs
from flowfabric.model.flow_links import Parent
from flowfabric.testing import ManualClock

from .bulk_helpers import asked, before_commits, counts, done, sound
from .flow_helpers import finish, states, submit
from .helpers import (
    dump,
    fields,
    row,
    running,
    state,
    worker,
)
from .limit_helpers import quota_lane, several

PAGE = 3


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "PAGE_SIZE", PAGE)
    monkeypatch.setattr(bulk_actions, "PAGE_SIZES", {})


@pytest.mark.meets("cancel", "flow")
async def test_a_cancelled_member_skips_those_that_wait_for_it(engine: Engine) -> None:
    graph = await submit(engine, "a>b b>c")
    job = await done(engine, asked("cancel", where={"lane": "a"}))
    assert counts(job) == (1, 1, 0, 0)
    assert await states(engine, graph) == {
        "a": "ENDED(cancelled)",
        "b": "ENDED(skipped)",
        "c": "ENDED(skipped)",
    }
    await sound(engine)


@pytest.mark.meets("cancel", "child")
async def test_a_cancelled_parent_cancels_its_children(engine: Engine) -> None:
    ident, _ = await running(engine)
    children = await submit(engine, "x y", parent=Parent(execution_id=ident, waitpoint_key="w"))
    await done(engine, asked("cancel", where={"lane": "default"}))
    assert await states(engine, children) == dict.fromkeys("xy", "ENDED(cancelled)")
    await sound(engine)


@pytest.mark.meets("replay", "flow")
async def test_a_replayed_skipped_member_waits_for_its_upstreams_again(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    await finish(engine, graph, "a", "failure")
    assert (await states(engine, graph))["b"] == "ENDED(skipped)"
    job = await done(engine, asked("replay", where={"flow": graph.flow}))
    assert counts(job) == (2, 2, 0, 0)
    await finish(engine, graph, "a")
    await finish(engine, graph, "b")
    assert await states(engine, graph) == dict.fromkeys("ab", "ENDED(success)")
    await sound(engine)


@pytest.mark.meets("replay", "flow", "crash")
async def test_what_follows_a_replay_is_made_up_for_after_a_crash(
    engine: Engine, clock: ManualClock
) -> None:
    """The upstream has ended again before the skipped member is replayed."""
    graph = await submit(engine, "a>b")
    await finish(engine, graph, "a", "failure")
    await engine.replay_execution(ReplayExecutionArgs(execution_id=graph["a"]))
    await finish(engine, graph, "a")
    job = await engine.start_bulk(asked("replay", where={"lane": "b"}))
    await engine.run_bulk(job.job_id)
    assert (await state(engine, graph["b"])) == "DEPS"
    found = await engine.run_bulk(job.job_id, 5)
    assert (found.state, *counts(found)) == (BulkState.COMPLETED, 1, 1, 0, 0)
    assert (await state(engine, graph["b"])) == "READY"
    await sound(engine)


@pytest.mark.meets("retention", "flow")
async def test_members_of_an_unfinished_flow_are_not_deleted(engine: Engine) -> None:
    graph = await submit(engine, "a b")
    await finish(engine, graph, "a")
    job = await done(engine, asked("delete"))
    assert counts(job) == (1, 0, 0, 1)
    assert "still_needed" in job.errors[0]
    await finish(engine, graph, "b")
    assert counts(await done(engine, asked("delete"))) == (2, 2, 0, 0)
    left = await dump(engine)
    assert (left["ff_exec_core"], left["ff_flow_core"]) == ([], [])
    await sound(engine)


@pytest.mark.meets("retention", "child")
async def test_children_of_an_unfinished_parent_are_not_deleted(engine: Engine) -> None:
    ident, handle = await running(engine)
    children = await submit(engine, "x", parent=Parent(execution_id=ident, waitpoint_key="w"))
    await finish(engine, children, "x")
    assert counts(await done(engine, asked("delete"))) == (1, 0, 0, 1)
    await engine.complete(handle, b"")
    assert counts(await done(engine, asked("delete"))) == (2, 2, 0, 0)
    assert (await dump(engine))["ff_exec_core"] == []


async def test_a_flow_larger_than_a_page_is_deleted_with_its_last_member(engine: Engine) -> None:
    names = [f"n{at}" for at in range(2 * PAGE + 1)]
    graph = await submit(engine, " ".join(names))
    for name in names:
        await finish(engine, graph, name)
    job = await done(engine, asked("delete"))
    assert counts(job) == (len(names), len(names), 0, 0)
    assert (await dump(engine))["ff_flow_core"] == []


# ---- limits


@pytest.mark.meets("quota", "delay")
async def test_a_moved_execution_has_the_limits_of_its_new_lane(engine: Engine) -> None:
    quota = await quota_lane(engine, cap=1, lane="narrow")
    idents = await several(engine, 3)
    assert counts(await done(engine, asked("move", lane="narrow"))) == (3, 3, 0, 0)
    moved = await row(engine, idents[0])
    assert (moved.lane_id, moved.quota_policy_id, moved.gate) == ("narrow", quota, str(quota))
    work = await engine.claim_many("narrow", (), worker(), 3)
    assert len(work) == 1
    await sound(engine)
    back = await done(engine, asked("move", lane="default", where={"lane": "narrow"}))
    assert back.changed == 2
    left = [each for each in idents if each != fields(work[0].handle).execution_id]
    found = await row(engine, left[0])
    assert (found.quota_policy_id, found.gate, found.blocked_on) == (None, "", None)
    assert len(await engine.claim_many("default", (), worker(), 3)) == 2
    await sound(engine)


async def test_a_move_into_a_closed_lane_is_refused(engine: Engine) -> None:
    await engine.drain_lane("shut")
    (ident,) = await several(engine, 1)
    job = await done(engine, asked("move", lane="shut"))
    assert counts(job) == (1, 0, 0, 1)
    assert "lane_closed" in job.errors[0]
    assert (await row(engine, ident)).lane_id == "default"


async def test_a_lane_that_closes_before_the_commit_refuses_the_move(engine: Engine) -> None:
    await several(engine, 2)
    before_commits(engine, lambda: engine.drain_lane("shut"))
    job = await done(engine, asked("move", lane="shut"))
    assert counts(job) == (2, 0, 0, 2)
