"""Suspensions that end otherwise: timeouts, cancels, deadlines, flows that need them no more, and
being forgotten.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.errors import StateKind
from flowfabric.loops.supervisor import Supervisor
from flowfabric.loops.timers import ExecutionDeadline, SuspensionTimeout
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import CancelExecutionArgs, ReplayExecutionArgs
from flowfabric.model.flow import CancelFlowArgs, EdgePolicy
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, SuspensionPolicy
from flowfabric.model.waitpoint import OperatorOnly, TimeoutBehavior, all_of_waitpoints
from flowfabric.testing import ManualClock

from .flow_helpers import Graph, connect, empty_flow, finish, hold, states, submit, undispatched
from .helpers import (
    LANE,
    attempt,
    claim,
    dump,
    new_id,
    refused,
    row,
    running,
    state,
    stored,
    told,
    two_stores,
)
from .suspend_helpers import (
    Parked,
    claim_resumed,
    closed_for,
    park,
    park_held,
    pending,
    seed,
    signal,
    signal_args,
    signals,
    sound,
    suspension,
    waitpoint,
    waitpoints,
)

IN_MS = 5_000
DAY_MS = 86_400_000
# what is left of the execution and its attempt, why it closed, and the word it is told with
ENDS: dict[str, tuple[str, str, str, str]] = {
    "fail": ("ENDED(failed)", "ended_failure", "timed_out_fail", "failed"),
    "cancel": ("ENDED(cancelled)", "ended_cancelled", "timed_out_cancel", "cancelled"),
    "expire": ("ENDED(expired)", "ended_failure", "timed_out_expire", "expired"),
}
TABLES_OF_ONE = (
    "ff_exec_core",
    "ff_attempt",
    "ff_suspension_current",
    "ff_waitpoint_pending",
    "ff_signal",
    "ff_signal_dedup",
    "ff_suspend_dedup",
    "ff_signal_event",
    "ff_lease_event",
    "ff_completion_event",
)


def timeout_loop() -> SuspensionTimeout:
    return SuspensionTimeout(LoopSettings())


async def timed(engine: Engine, clock: ManualClock, behavior: str, **said: Any) -> Parked:
    """Two waitpoints and one made ahead, none of which gets what it waits for in time."""
    ident, held = await running(engine, **said)
    await pending(engine, held, "ahead", 10 * IN_MS)
    return await park_held(
        engine,
        ident,
        held,
        "a",
        "b",
        resume_condition=all_of_waitpoints("a", "b"),
        timeout_at=clock() + IN_MS,
        timeout_behavior=behavior,
    )


async def closed_to_signals(engine: Engine, parked: Parked) -> None:
    for bound in parked.by_key.values():
        assert (
            await engine.read_waitpoint_token(parked.ident.partition_index, bound.waitpoint_id)
            is None
        )
        await refused(
            engine.deliver_signal(signal_args(parked.ident, bound)), StateKind.TARGET_NOT_SIGNALABLE
        )


@pytest.mark.parametrize("behavior", ENDS)
async def test_a_suspension_without_a_timeout_has_that_of_the_policy(
    engine: Engine, clock: ManualClock, behavior: str
) -> None:
    await seed(engine)
    policy = ExecutionPolicy(
        suspension_policy=SuspensionPolicy(default_timeout_ms=IN_MS, timeout_behavior=behavior)
    )
    parked = await park(engine, made={"policy": policy}, idempotency_key="once")
    assert (await suspension(engine, parked.ident)).timeout_at_ms == clock() + IN_MS
    clock.advance(IN_MS)
    await timeout_loop().run(engine)
    assert await state(engine, parked.ident) == ENDS[behavior][0]


async def test_a_suspension_with_a_timeout_of_its_own_keeps_it(
    engine: Engine, clock: ManualClock
) -> None:
    await seed(engine)
    policy = ExecutionPolicy(
        suspension_policy=SuspensionPolicy(default_timeout_ms=IN_MS, timeout_behavior="cancel")
    )
    parked = await park(
        engine, made={"policy": policy}, timeout_at=clock() + 2 * IN_MS, timeout_behavior="expire"
    )
    clock.advance(IN_MS)
    assert await timeout_loop().run(engine) == 0
    clock.advance(IN_MS)
    await timeout_loop().run(engine)
    assert await state(engine, parked.ident) == ENDS["expire"][0]


@pytest.mark.parametrize("behavior", ENDS)
async def test_a_timeout_ends_it(engine: Engine, clock: ManualClock, behavior: str) -> None:
    await seed(engine)
    retries = ExecutionPolicy(retry_policy=RetryPolicy(max_retries=3))
    parked = await timed(engine, clock, behavior, policy=retries)
    ended, attempt_state, reason, outcome = ENDS[behavior]
    loop = timeout_loop()
    assert await loop.next_due(engine) == clock() + IN_MS
    clock.advance(IN_MS - 1)
    before = await dump(engine)
    assert (
        await loop.run(engine) == 0
        and await engine.expire_suspension(parked.ident) == "not_yet_due"
    )
    assert await dump(engine) == before
    clock.advance(1)
    assert await loop.run(engine) == 1
    core, tried = await row(engine, parked.ident), await attempt(engine, parked.ident)
    assert await state(engine, parked.ident) == ended
    assert (tried.attempt_state, tried.outcome, tried.terminal_at_ms) == (
        attempt_state,
        outcome,
        clock(),
    )
    assert core.failure_reason == tried.failure_reason == f"suspension_timeout:{behavior}"
    assert (core.lease_epoch, core.terminal_at_ms, core.current_suspension_id) == (2, clock(), None)
    assert (await closed_for(engine, parked.ident))[0] == reason
    found = await waitpoints(engine, parked.ident)
    assert {found[w.waitpoint_id].close_reason for w in parked.by_key.values()} == {reason}
    assert (await told(engine, parked.ident))["DONE"] == [outcome]
    await closed_to_signals(engine, parked)
    settled = await dump(engine)
    assert await loop.run(engine) == 0 and await loop.next_due(engine) is None
    assert await engine.expire_suspension(parked.ident) == "not_suspended_cleaned"
    assert await dump(engine) == settled
    await sound(engine)
    await engine.replay_execution(ReplayExecutionArgs(execution_id=parked.ident))
    assert await state(engine, parked.ident) == "READY"
    assert (await suspension(engine, parked.ident)).close_reason == reason
    await sound(engine)


@pytest.mark.parametrize("heard", [False, True], ids=["nothing came", "something came"])
async def test_a_timeout_lets_it_go_on(engine: Engine, clock: ManualClock, heard: bool) -> None:
    await seed(engine)
    parked = await timed(engine, clock, TimeoutBehavior.AUTO_RESUME)
    if heard:
        await signal(engine, parked, key="a")
    clock.advance(IN_MS)
    assert await timeout_loop().run(engine) == 1
    assert await state(engine, parked.ident) == "READY"
    assert (await suspension(engine, parked.ident)).close_reason == "timed_out_auto_resume"
    found = await waitpoints(engine, parked.ident)
    assert {found[w.waitpoint_id].close_reason for w in parked.by_key.values()} == {
        "timed_out_auto_resume"
    }
    assert sorted(w.state for w in found.values()) == ["closed", "closed", "pending"]
    assert (await told(engine, parked.ident))["DONE"] == []
    taken = await claim_resumed(engine, parked.ident)
    assert (taken.attempt_index, taken.lease_epoch) == (0, 3)
    (seen,) = await engine.observe_signals(taken.handle)
    assert (seen.signal_name, seen.signal_category, seen.source_type) == (
        "timeout",
        "system",
        "engine",
    )
    assert (seen.source_identity, seen.accepted_at, seen.payload) == (
        "suspension_timeout",
        clock(),
        None,
    )
    assert len(await engine.observe_signals(parked.handle)) == 1 + heard
    await sound(engine)


async def test_a_timeout_asks_for_an_operator(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    parked = await timed(engine, clock, TimeoutBehavior.ESCALATE)
    due = clock.advance(IN_MS)
    assert await timeout_loop().run(engine) == 1
    core, found = await row(engine, parked.ident), await suspension(engine, parked.ident)
    assert (core.lifecycle_phase, core.blocking_reason) == ("suspended", "paused_by_operator")
    assert core.blocking_detail == f"suspension escalated: timeout at {due}"
    assert (found.reason_code, found.timeout_at_ms, found.timeout_behavior) == (
        "waiting_for_operator_review",
        None,
        None,
    )
    assert (
        found.is_open
        and (await waitpoint(engine, parked.ident, parked.waitpoint)).state == "active"
    )
    (listed,) = (await engine.list_suspended(parked.ident.partition_index)).items
    assert listed.reason == "waiting_for_operator_review"
    settled = await dump(engine)
    clock.advance(IN_MS)
    assert (
        await timeout_loop().run(engine) == 0
        and await engine.expire_suspension(parked.ident) == "not_yet_due"
    )
    assert await dump(engine) == settled
    assert await signal(engine, parked, key="a") == "appended_to_waitpoint"
    await engine.resume_execution(parked.ident, "operator")
    await refused(engine.resume_execution(parked.ident), StateKind.EXECUTION_NOT_SUSPENDED)
    assert (await claim_resumed(engine, parked.ident)).lease_epoch == 3
    await sound(engine)


async def test_nothing_to_time_out(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    assert await engine.expire_suspension(new_id()) == "not_found_cleaned"
    parked = await timed(engine, clock, "fail")
    await signal(engine, parked, key="a")
    await signal(engine, parked, key="b")
    clock.advance(IN_MS)
    before = await dump(engine)
    assert await timeout_loop().run(engine) == 0
    assert await engine.expire_suspension(parked.ident) == "not_suspended_cleaned"
    never = await park(engine, made={"lane_id": "never"})
    assert await engine.expire_suspension(never.ident) == "not_yet_due"
    assert (await dump(engine))["ff_signal"] == before["ff_signal"]


@two_stores
async def test_more_than_one_page_is_due_and_a_filter_keeps_to_its_own(
    engine: Engine, clock: ManualClock
) -> None:
    await seed(engine)
    for at in range(103):
        said = {"lane_id": f"l{at}", "namespace": "mine" if at % 2 else "theirs"}
        await park(engine, made=said, timeout_at=clock() + 1 + at % 3)
    clock.advance(10)
    assert (
        await SuspensionTimeout(LoopSettings(wanted=ScannerFilter(namespace="mine"))).run(engine)
        == 51
    )
    assert await timeout_loop().run(engine) == 52


# ---- somebody else ends it

Ending = Callable[[Engine, ManualClock, Parked], Awaitable[Any]]


async def cancelled(engine: Engine, clock: ManualClock, parked: Parked) -> None:
    await engine.cancel_execution(CancelExecutionArgs(execution_id=parked.ident, reason="no"))


async def past_deadline(engine: Engine, clock: ManualClock, parked: Parked) -> None:
    clock.advance(20_000)
    assert await ExecutionDeadline(LoopSettings()).run(engine) == 1


@pytest.mark.parametrize(
    ("end", "ended", "reason"),
    [
        (cancelled, "ENDED(cancelled)", "cancelled"),
        (past_deadline, "ENDED(expired)", "expired:execution_deadline"),
    ],
    ids=["cancel", "deadline"],
)
async def test_an_end_closes_what_it_waited_for(
    engine: Engine, clock: ManualClock, end: Ending, ended: str, reason: str
) -> None:
    await seed(engine)
    parked = await timed(
        engine, clock, "auto_resume_with_timeout_signal", execution_deadline_at=clock() + 20_000
    )
    await end(engine, clock, parked)
    assert await state(engine, parked.ident) == ended
    assert await closed_for(engine, parked.ident) == (reason, {reason})
    core = await row(engine, parked.ident)
    assert (core.current_suspension_id, core.current_waitpoint_id) == (None, None)
    assert (await told(engine, parked.ident))["DONE"] == [core.terminal_outcome]
    await closed_to_signals(engine, parked)
    await refused(engine.resume_execution(parked.ident), StateKind.EXECUTION_NOT_SUSPENDED)
    assert await timeout_loop().run(engine) == 0
    await sound(engine)


@pytest.mark.meets("suspend", "deadline")
async def test_a_deadline_of_one_that_is_only_preparing(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine, execution_deadline_at=clock() + 100)
    ahead = await pending(engine, held)
    clock.advance(100)
    assert await ExecutionDeadline(LoopSettings()).run(engine) == 1
    assert await state(engine, ident) == "ENDED(expired)"
    await refused(engine.deliver_signal(signal_args(ident, ahead)), StateKind.TARGET_NOT_SIGNALABLE)
    await sound(engine)


# ---- members of flows


async def park_member(engine: Engine, graph: Graph, name: str, **said: Any) -> Parked:
    return await park_held(engine, graph[name], await hold(engine, graph, name), **said)


@pytest.mark.meets("suspend", "flow", "cancel")
async def test_cancelling_the_flow(engine: Engine) -> None:
    await seed(engine)
    graph = await submit(engine, "a>b c")
    parked = await park_member(engine, graph, "a")
    await engine.cancel_flow(graph.flow)
    assert await states(engine, graph, "a c") == {"a": "ENDED(cancelled)", "c": "ENDED(cancelled)"}
    assert await closed_for(engine, parked.ident) == ("cancelled", {"cancelled"})
    await sound(engine)


@pytest.mark.parametrize("policy", ["cancel_pending", "flow_only"])
async def test_cancelling_what_has_not_begun_leaves_it_waiting(engine: Engine, policy: str) -> None:
    await seed(engine)
    graph = await submit(engine, "a>b c")
    parked = await park_member(engine, graph, "a")
    await engine.cancel_flow_header(CancelFlowArgs(flow_id=graph.flow, cancellation_policy=policy))
    await Supervisor(engine).run_once()
    assert await state(engine, parked.ident) == "SUSPENDED"
    assert await signal(engine, parked) == "resume_condition_satisfied"


@pytest.mark.meets("suspend", "flow", "quorum", "cancel")
async def test_the_others_were_quicker(engine: Engine) -> None:
    await seed(engine)
    graph = await submit(engine, "a>d b>d", policies={"d": EdgePolicy.any_of()})
    parked = await park_member(engine, graph, "a")
    await finish(engine, graph, "b")
    await engine.dispatch_sibling_cancels()
    assert await states(engine, graph) == {
        "a": "ENDED(cancelled)",
        "b": "ENDED(success)",
        "d": "READY",
    }
    assert await closed_for(engine, parked.ident) == ("cancelled", {"cancelled"})
    await sound(engine)


async def test_what_it_depends_on_became_impossible(engine: Engine) -> None:
    """What it waits for was added while it ran."""
    await seed(engine)
    graph = await empty_flow(engine, "a", "b")
    parked = await park_member(engine, graph, "b")
    await connect(engine, graph, "a>b")
    await finish(engine, graph, "a", "failed")
    assert await state(engine, parked.ident) == "ENDED(skipped)"
    assert await closed_for(engine, parked.ident) == (
        "dependency_impossible",
        {"dependency_impossible"},
    )
    await closed_to_signals(engine, parked)
    await sound(engine)


@pytest.mark.parametrize("behavior", ENDS)
async def test_children_are_cancelled_at_a_timeout(
    engine: Engine, clock: ManualClock, behavior: str
) -> None:
    await seed(engine)
    graph = await submit(engine, "a>b b>c")
    await park_member(engine, graph, "a", timeout_at=clock() + 10, timeout_behavior=behavior)
    clock.advance(10)
    assert await timeout_loop().run(engine) == 1
    assert await states(engine, graph, "b c") == {"b": "ENDED(skipped)", "c": "ENDED(skipped)"}
    assert await undispatched(engine) == []
    await sound(engine)


async def test_going_on_is_no_end_for_the_children(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    graph = await submit(engine, "a>b")
    parked = await park_member(engine, graph, "a")
    stream = await engine.subscribe_completion()
    await signal(engine, parked)
    event = await anext(stream)
    assert (event.outcome, event.flow_id, event.execution_id) == ("resumable", None, graph["a"])
    clock.advance(10_000)
    assert await engine.dispatch_completions() == 0
    await engine.cascade_completion(graph["a"])
    assert (await engine.recheck_blocked())[0] == 0
    assert await states(engine, graph) == {"a": "READY", "b": "DEPS"}
    taken = await claim_resumed(engine, graph["a"])
    await engine.complete(taken.handle)
    assert await state(engine, graph["b"]) == "READY"
    await sound(engine)


# ---- being forgotten


@pytest.mark.meets("suspend", "retention")
async def test_retention_takes_everything_with_it(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    await pending(engine, held, "ahead", 10)
    parked = await park_held(
        engine, ident, held, resume_condition=OperatorOnly(), idempotency_key="k"
    )
    await signal(engine, parked, idempotency_key="s", dedup_ttl_ms=10 * DAY_MS)
    await engine.resume_execution(ident)
    await engine.complete((await claim_resumed(engine, ident)).handle)
    clock.advance(DAY_MS)
    assert await engine.trim_retention(LANE) == 1
    assert await stored(engine, ident) is None
    left = await engine.store.dump(TABLES_OF_ONE)
    assert {table: len(rows) for table, rows in left.items() if rows} == {}


@pytest.mark.meets("suspend", "retention", "flow")
async def test_retention_takes_a_member_that_went_on(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    graph = await submit(engine, "a")
    parked = await park_member(engine, graph, "a")
    await signal(engine, parked)
    await engine.complete((await claim_resumed(engine, graph["a"])).handle)
    assert await undispatched(engine) == []
    clock.advance(DAY_MS)
    assert await engine.trim_retention("a") == 1
    assert await stored(engine, graph["a"]) is None


@pytest.mark.meets("suspend", "replay")
async def test_a_replayed_one_waits_anew(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    await engine.cancel_execution(CancelExecutionArgs(execution_id=parked.ident))
    await engine.replay_execution(ReplayExecutionArgs(execution_id=parked.ident))
    again = await park_held(engine, parked.ident, await claim(engine))
    assert await signal(engine, again) == "resume_condition_satisfied"
    assert len(await signals(engine, parked.ident)) == 1
    await sound(engine)
