"""What keeps flows going after a crash: undispatched events, blocked executions, and how long
members are kept.
"""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.model.event import ScannerFilter
from flowfabric.model.flow import CancelFlowArgs, EdgePolicy
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance.helpers import Rings

from .flow_helpers import (
    change_row,
    connect,
    counters,
    crashing,
    empty_flow,
    finish,
    group_key,
    hold,
    rows_of,
    stage,
    states,
    still,
    submit,
    undispatched,
)
from .helpers import LANE, completed, outbox, state, stored, told

GRACE_MS = 1_000
DAY_MS = 86_400_000


# ---- events that nobody saw to


@pytest.mark.parametrize("outcome", ["success", "failed", "cancelled"])
async def test_a_crash_between_the_end_and_what_follows_is_made_good(
    engine: Engine, clock: ManualClock, outcome: str
) -> None:
    graph = await submit(engine, "a>b b>c")
    with crashing(engine):
        await finish(engine, graph, "a", outcome)
    assert await states(engine, graph, "b c") == {"b": "DEPS", "c": "DEPS"}
    assert await undispatched(engine) == [graph["a"].uuid]
    clock.advance(GRACE_MS - 1)
    assert await engine.dispatch_completions() == 0
    clock.advance(1)
    other = Engine(engine.store)
    assert await other.dispatch_completions() == 1
    good = outcome == "success"
    expected = (
        {"b": "READY", "c": "DEPS"} if good else {"b": "ENDED(skipped)", "c": "ENDED(skipped)"}
    )
    assert await states(engine, graph, "b c") == expected
    assert await undispatched(other) == []
    assert await other.dispatch_completions(grace_ms=0) == 0


async def test_a_crash_in_the_middle_counts_nothing_twice(
    engine: Engine, clock: ManualClock
) -> None:
    """Edges were counted, the event was not marked."""
    graph = await submit(engine, "a>b a>c a>d x>d")
    await finish(engine, graph, "a")
    await engine.parts.core.cascade.finish()
    (event,) = await rows_of(engine, "ff_completion_event")
    await change_row(
        engine, "ff_completion_event", {"event_id": event["event_id"]}, dispatched_at_ms=None
    )
    before = {name: await counters(engine, graph, name) for name in "bcd"}
    clock.advance(GRACE_MS)
    assert await engine.dispatch_completions() == 1
    assert {name: await counters(engine, graph, name) for name in "bcd"} == before
    assert before["d"] == (1, 0, 0, 1, "pending")
    assert await undispatched(engine) == []


async def test_two_reconcilers_at_once_count_once(engine: Engine, clock: ManualClock) -> None:
    graph = await submit(engine, "a>z b>z c>z d>z")
    with crashing(engine):
        for name in "abcd":
            await finish(engine, graph, name)
    clock.advance(GRACE_MS)
    engines = [engine, *(Engine(engine.store) for _ in range(3))]
    await asyncio.gather(*(each.dispatch_completions() for each in engines))
    for each in engines:
        await each.parts.core.cascade.finish()
    assert await counters(engine, graph, "z") == (4, 0, 0, 0, "satisfied")
    assert await state(engine, graph["z"]) == "READY"


async def test_only_flow_members_are_dispatched(engine: Engine, clock: ManualClock) -> None:
    await completed(engine)
    clock.advance(GRACE_MS)
    before = await still(engine)
    assert await engine.dispatch_completions() == 0
    assert await still(engine) == before


async def test_a_filter_chooses_whose_events_are_dispatched(
    engine: Engine, clock: ManualClock
) -> None:
    one = await submit(engine, "a>b", namespace="one")
    two = await submit(
        engine, "c>d", namespace="two", nodes={"c": {"tags": {"cairn.instance_id": "i"}}}
    )
    with crashing(engine):
        await finish(engine, one, "a")
        await finish(engine, two, "c")
    clock.advance(GRACE_MS)
    assert await engine.dispatch_completions(ScannerFilter(namespace="three")) == 0
    assert await engine.dispatch_completions(ScannerFilter(namespace="one")) == 1
    assert (await state(engine, one["b"]), await state(engine, two["d"])) == ("READY", "DEPS")
    assert (
        await engine.dispatch_completions(
            ScannerFilter(instance_tag=("cairn.instance_id", "other"))
        )
        == 0
    )
    assert (
        await engine.dispatch_completions(ScannerFilter(instance_tag=("cairn.instance_id", "i")))
        == 1
    )
    assert await state(engine, two["d"]) == "READY"


async def test_marking_an_event_wakes_no_subscriber(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = await submit(engine, "a>b")
    with crashing(engine):
        await finish(engine, graph, "a")
    clock.advance(GRACE_MS)
    rings = Rings(engine.store, monkeypatch)
    assert await engine.dispatch_completions() == 1
    assert await undispatched(engine) == []
    topics = {topic for topic, _ in rings.topics}
    assert "ready" in topics and not any(topic.startswith("ff_") for topic in topics)


# ---- blocked executions


async def test_a_blocked_execution_whose_upstreams_are_over_is_found(engine: Engine) -> None:
    graph = await submit(engine, "a>b c>d e>f")
    with crashing(engine):
        await finish(engine, graph, "a")
        await finish(engine, graph, "c", "failed")
    assert await engine.recheck_blocked() == (2, None)
    assert await states(engine, graph, "b d f") == {
        "b": "READY",
        "d": "ENDED(skipped)",
        "f": "DEPS",
    }
    assert await engine.recheck_blocked() == (0, None)


async def test_a_blocked_execution_that_waits_for_nothing_is_released(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    await change_row(
        engine,
        "ff_edge_group",
        group_key(graph, "b"),
        running_count=0,
        success_count=1,
        group_state="satisfied",
    )
    assert (await engine.recheck_blocked())[0] == 1
    assert await state(engine, graph["b"]) == "READY"


async def test_a_blocked_execution_whose_group_is_lost_is_skipped(engine: Engine) -> None:
    graph = await submit(engine, "a>b b>c")
    await change_row(
        engine,
        "ff_edge_group",
        group_key(graph, "b"),
        running_count=0,
        fail_count=1,
        group_state="impossible",
    )
    await engine.recheck_blocked()
    assert await states(engine, graph, "b c") == {"b": "ENDED(skipped)", "c": "ENDED(skipped)"}


async def test_pages_of_blocked_executions_reach_them_all(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.engine.flows.dependencies.MAX_BLOCKED", 2)
    graph = await submit(engine, "a>b a>c a>d x>e a>f")
    with crashing(engine):
        await finish(engine, graph, "a")
    after, pages = None, 0
    while pages == 0 or after is not None:
        _, after = await engine.recheck_blocked(after)
        pages += 1
    assert pages <= 4
    assert await states(engine, graph, "b c d e f") == {
        "b": "READY",
        "c": "READY",
        "d": "READY",
        "e": "DEPS",
        "f": "READY",
    }


# ---- retention


async def test_a_member_is_kept_until_its_end_was_seen_to(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b", nodes={"a": {"lane_id": "l"}, "b": {"lane_id": "l"}})
    with crashing(engine):
        held = await hold(engine, graph, "l")
        await engine.complete(held)
    clock.advance(DAY_MS)
    assert await engine.trim_retention("l") == 0
    await engine.dispatch_completions()
    await engine.parts.core.cascade.finish()
    assert await state(engine, graph["b"]) == "READY"
    await engine.complete(await hold(engine, graph, "l"))
    await engine.parts.core.cascade.finish()
    assert await engine.trim_retention("l") == 1
    assert await stored(engine, graph["a"]) is None


async def test_an_upstream_is_kept_while_one_of_its_edges_is_open(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b a>c")
    await change_row(engine, "ff_edge_group", group_key(graph, "c"), running_count=0)
    await finish(engine, graph, "a")
    (event,) = await rows_of(engine, "ff_completion_event")
    if event["dispatched_at_ms"] is None:
        await change_row(
            engine, "ff_completion_event", {"event_id": event["event_id"]}, dispatched_at_ms=1
        )
    clock.advance(DAY_MS)
    assert await engine.trim_retention("a") == 0
    await change_row(engine, "ff_edge_group", group_key(graph, "c"), running_count=1)
    await engine.cascade_completion(graph["a"])
    for name in ("b", "c"):
        await finish(engine, graph, name)
    assert await engine.trim_retention("a") == 1


async def test_a_staged_edge_that_was_never_applied_retains_nothing(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await empty_flow(engine, "a", "b")
    await stage(engine, graph, "a>b")
    await finish(engine, graph, "a")
    await finish(engine, graph, "b")
    await engine.parts.core.cascade.finish()
    clock.advance(DAY_MS)
    assert await engine.trim_retention("a") == 1


FLOW_TABLES = (
    "ff_flow_core",
    "ff_edge",
    "ff_edge_group",
    "ff_pending_cancel_groups",
    "ff_cancel_backlog",
    "ff_cancel_backlog_member",
    "ff_flow_summary",
    "ff_operator_event",
)


@pytest.mark.meets("retention", "flow", "quorum")
async def test_a_flow_is_removed_with_its_last_member(engine: Engine, clock: ManualClock) -> None:
    other = await submit(engine, "x>y")
    before = await still(engine)
    graph = await submit(engine, "a>c b>c", policies={"c": EdgePolicy.any_of()})
    await finish(engine, graph, "a")
    await finish(engine, graph, "c")
    await engine.project_flow_summary(graph.flow)
    await engine.parts.core.cascade.finish()
    clock.advance(DAY_MS)
    for lane in "ab":
        assert await engine.trim_retention(lane) == 1
        assert await engine.describe_flow(graph.flow) is not None
    assert await engine.trim_retention("c") == 1
    after = await still(engine)
    for table in (
        *FLOW_TABLES,
        "ff_exec_core",
        "ff_attempt",
        "ff_completion_event",
        "ff_lease_event",
    ):
        assert sorted(after[table]) == sorted(before[table])
    assert await engine.describe_flow(other.flow) is not None


@pytest.mark.meets("retention", "flow", "cancel")
async def test_events_and_owed_cancels_of_a_flow_go_with_it(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a b", nodes={"a": {"lane_id": "l"}, "b": {"lane_id": "l"}})
    await engine.cancel_flow_header(CancelFlowArgs(flow_id=graph.flow, reason="r"))
    await engine.parts.core.cascade.finish()
    (event,) = await rows_of(engine, "ff_operator_event")
    clock.advance(DAY_MS)
    assert await engine.trim_retention("l", batch=1) == 1
    assert len(await rows_of(engine, "ff_operator_event")) == 1
    assert await engine.trim_retention("l", batch=1) == 1
    for table in FLOW_TABLES:
        assert await rows_of(engine, table) == []
    marks = {row["channel"]: row["event_id"] for row in await rows_of(engine, "ff_outbox_trim")}
    assert marks["ff_operator_event"] == event["event_id"]


async def test_trimming_takes_the_owed_cancels_of_a_member_with_it(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a b")
    await engine.cancel_flow_header(CancelFlowArgs(flow_id=graph.flow, reason="r"))
    await engine.parts.core.cascade.finish()
    clock.advance(DAY_MS)
    assert await engine.trim_retention("a") == 1
    assert [r["execution_id"] for r in await rows_of(engine, "ff_cancel_backlog_member")] == [
        str(graph["b"])
    ]
    assert await outbox(engine, "ff_completion_event", graph["a"]) == []


async def test_siblings_that_were_trimmed_count_as_over(engine: Engine, clock: ManualClock) -> None:
    graph = await submit(engine, "a>d b>d", policies={"d": EdgePolicy.quorum(2)})
    await finish(engine, graph, "a")
    await engine.parts.core.cascade.finish()
    clock.advance(DAY_MS)
    await engine.trim_retention("a")
    await finish(engine, graph, "b")
    assert await state(engine, graph["d"]) == "READY"
    assert await rows_of(engine, "ff_pending_cancel_groups") == []


async def test_the_end_of_an_execution_without_dependents_is_marked(engine: Engine) -> None:
    graph = await empty_flow(engine, "a", "b")
    await connect(engine, graph, "a>b")
    await finish(engine, graph, "a")
    await finish(engine, graph, "b")
    assert await undispatched(engine) == []
    assert (await told(engine, graph["b"]))["DONE"] == ["success"]
    assert await engine.trim_retention(LANE) == 0
