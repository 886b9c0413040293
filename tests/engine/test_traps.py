"""The known traps of this kind of engine, one named test each; those of the fence are in
test_traps_fences.py.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.engine.engine import Engine
from flowfabric.errors import ContentionKind
from flowfabric.model.attempt import FailureClass, RetryScheduled, TerminalFailed
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import ChangePriorityArgs, ReplayExecutionArgs
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy
from flowfabric.store.port import Scan
from flowfabric.testing import ManualClock
from tests.patience import patience

from .helpers import (
    HOLDER_CALLS,
    HolderCall,
    attempt,
    attempts,
    claim,
    create,
    dump,
    fields,
    forged,
    new_id,
    outbox,
    refused,
    row,
    running,
    state,
    told,
    worker,
)

# ---- a terminal call repeated, and one after another


async def test_the_same_handle_completes_twice_with_one_effect(engine: Engine) -> None:
    ident, handle = await running(engine)
    await engine.complete(handle, b"first")
    before = await dump(engine)
    await engine.complete(handle, b"second")
    assert await dump(engine) == before
    assert await engine.get_execution_result(ident) == b"first"
    assert (await told(engine, ident))["DONE"] == ["success"]


async def test_the_same_handle_gives_up_twice_with_one_effect(engine: Engine) -> None:
    ident, handle = await running(engine)
    await engine.cancel(handle, "first")
    before = await dump(engine)
    await engine.cancel(handle, "second")
    assert await dump(engine) == before
    assert (await told(engine, ident))["DONE"] == ["cancelled"]


async def test_the_same_handle_fails_twice_with_one_effect(engine: Engine) -> None:
    _, handle = await running(engine)
    assert await engine.fail(handle, "first", FailureClass.PERMANENT) == TerminalFailed()
    before = await dump(engine)
    assert await engine.fail(handle, "second", FailureClass.PERMANENT) == TerminalFailed()
    assert await dump(engine) == before


async def test_a_retry_asked_for_twice_is_scheduled_once(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine)
    first = await engine.fail(handle, "boom")
    clock.advance(10)
    assert await engine.fail(handle, "boom") == first
    assert (await row(engine, ident)).retry_count == 1


@pytest.mark.parametrize(
    "call", [HOLDER_CALLS["fail"], HOLDER_CALLS["fail for good"], HOLDER_CALLS["delay"]]
)
async def test_a_fail_after_a_complete_revives_nothing(engine: Engine, call: HolderCall) -> None:
    ident, handle = await running(engine)
    await engine.complete(handle, b"kept")
    before = await dump(engine)
    error: Any = await refused(call(engine, handle), ContentionKind.EXECUTION_NOT_ACTIVE)
    assert await dump(engine) == before
    assert error.facts["terminal_outcome"] == "success"
    assert error.facts["lifecycle_phase"] == "terminal"
    assert error.facts["lease_epoch"] == "1"
    assert await engine.get_execution_result(ident) == b"kept"


async def test_a_complete_after_a_fail_changes_nothing(engine: Engine) -> None:
    ident, handle = await running(engine)
    await engine.fail(handle, "boom", FailureClass.PERMANENT)
    await refused(engine.complete(handle), ContentionKind.EXECUTION_NOT_ACTIVE)
    assert await state(engine, ident) == "ENDED(failed)"


async def test_a_repeat_with_another_lease_id_is_not_the_same_call(engine: Engine) -> None:
    _, handle = await running(engine)
    await engine.complete(handle)
    await refused(engine.complete(forged(handle, lease_id=uuid4())), ContentionKind.LEASE_CONFLICT)


async def test_the_handle_of_a_replayed_generation_is_dead(engine: Engine) -> None:
    ident, handle = await running(engine)
    await engine.complete(handle)
    await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    await refused(engine.complete(handle), ContentionKind.LEASE_CONFLICT)
    assert await state(engine, ident) == "READY"


async def test_completes_racing_with_one_handle_have_one_effect(engine: Engine) -> None:
    ident, handle = await running(engine)
    await asyncio.gather(*(engine.complete(handle, b"x") for _ in range(10)))
    assert await told(engine, ident) == {
        "LEASE": ["acquired", "revoked"],
        "DONE": ["success"],
        "OPER": [],
    }


async def test_complete_and_fail_racing_on_one_handle_leave_one_outcome(engine: Engine) -> None:
    """The two in opposite orders never deadlock, and exactly one succeeds."""
    for _ in range(5):
        ident, handle = await running(engine)
        answers = await asyncio.gather(
            engine.complete(handle),
            engine.fail(handle, "boom", FailureClass.PERMANENT),
            return_exceptions=True,
        )
        assert sum(isinstance(a, Exception) for a in answers) == 1
        assert len((await told(engine, ident))["DONE"]) == 1


# ---- retries


async def test_transient_failures_without_a_policy_are_bounded_and_delayed(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine)
    delays = []
    for _ in range(3):
        outcome = await engine.fail(handle, "boom")
        assert isinstance(outcome, RetryScheduled)
        delays.append(outcome.delay_until - clock())
        assert await engine.claim("default", (), worker()) is None
        clock.now_ms = outcome.delay_until
        await engine.promote_delayed(ident)
        handle = await claim(engine)
    assert delays == [1_000, 2_000, 4_000]
    assert await engine.fail(handle, "boom") == TerminalFailed()
    assert len(await attempts(engine, ident)) == 4


async def test_an_infra_crash_is_bounded_like_a_transient_failure(engine: Engine) -> None:
    said = ExecutionPolicy(
        retry_policy=RetryPolicy(max_retries=1, backoff={"type": "fixed", "delay_ms": 0})
    )
    ident, handle = await running(engine, policy=said)
    assert isinstance(await engine.fail(handle, "oom", FailureClass.INFRA_CRASH), RetryScheduled)
    assert (
        await engine.fail(await claim(engine), "oom", FailureClass.INFRA_CRASH) == TerminalFailed()
    )
    assert [a.attempt_index for a in await attempts(engine, ident)] == [0, 1]


# ---- events


@pytest.mark.parametrize("end", ["fail for good", "cancel", "complete"])
async def test_the_namespace_is_on_every_event_so_filtered_subscribers_see_failures(
    engine: Engine, end: str
) -> None:
    ident, handle = await running(engine, namespace="tenant-a", tags={"cairn.instance_id": "blue"})
    await HOLDER_CALLS[end](engine, handle)
    for channel in ("ff_lease_event", "ff_completion_event"):
        for event in await outbox(engine, channel, ident):
            assert (event["namespace"], event["instance_tag"]) == ("tenant-a", "blue")
    seen = await anext(engine.subscribe_completion(BEGINNING, ScannerFilter(namespace="tenant-a")))
    assert seen.execution_id == ident


async def test_no_event_is_lost_behind_a_cursor_under_concurrent_writers(engine: Engine) -> None:
    """Many commit at once while one follows: it sees each once, in order, from whatever cursor it
    resumes.
    """
    total = 60
    following = await engine.subscribe_completion()
    for _ in range(total):
        await create(engine)

    async def work() -> None:
        while (handle := await engine.claim("default", (), worker())) is not None:
            await engine.complete(handle)

    workers = asyncio.gather(*(work() for _ in range(6)))
    cursors = []
    for at in range(total):
        event = await asyncio.wait_for(anext(following), patience(10))
        cursors.append(event.cursor)
        if at % 20 == 10:
            following = engine.subscribe_completion(event.cursor)
    await workers
    assert cursors == sorted(cursors) and len(set(cursors)) == total


# ---- claiming


async def test_a_fresh_execution_is_claimable_without_any_step_in_between(engine: Engine) -> None:
    ident = await create(engine)
    assert fields(await claim(engine)).execution_id == ident


async def test_a_row_no_worker_here_can_run_does_not_hide_later_rows(engine: Engine) -> None:
    """Far more of them than any page, and of a higher priority."""
    gpu = {"routing_requirements": {"required_capabilities": ["gpu"]}}
    for _ in range(120):
        await create(engine, priority=9, policy=gpu)
    plain = await create(engine)
    assert fields(await claim(engine)).execution_id == plain
    assert await engine.claim("default", (), worker()) is None


async def test_a_row_reserved_for_another_worker_does_not_hide_those_behind_it(
    engine: Engine,
) -> None:
    await create(engine, priority=9)
    await engine.claim_for_worker("default", "w2", "w2-i1", (), 10_000)
    plain = await create(engine)
    assert fields(await claim(engine)).execution_id == plain


async def test_an_idle_claim_asks_the_store_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once per partition. Whether the lane has anything under a limit is asked now and then
    only.
    """
    monkeypatch.setattr("flowfabric.engine.claims.limit_cache.GATES_FRESH_S", 3_600)
    for partition in (0, 7, 255):
        await create(engine, lane_id="busy", execution_id=new_id(partition))
    assert await engine.claim("idle", (), worker()) is None
    calls = []
    sweep = engine.store.sweep

    def counted(plan: Any, limit: int) -> Any:
        calls.append(plan.form.name)
        return sweep(plan, limit)

    def unread(reads: Any) -> Any:
        raise AssertionError("an idle claim reads nothing else")

    monkeypatch.setattr(engine.store, "sweep", counted)
    monkeypatch.setattr(engine.store, "load", unread)
    assert await engine.claim("idle", (), worker()) is None
    assert calls == ["claim"]


async def test_work_in_any_partition_is_found(engine: Engine) -> None:
    made = {await create(engine, execution_id=new_id(p)) for p in (0, 7, 65_535)}
    found = await engine.claim_many("default", (), worker(), 10)
    assert {w.execution_id for w in found} == made


async def test_racing_claims_never_share_an_execution(engine: Engine) -> None:
    for _ in range(20):
        await create(engine)
    found = await asyncio.gather(
        *(engine.claim_many("default", (), worker(n), 3) for n in range(10))
    )
    taken = [w.execution_id for works in found for w in works]
    assert len(taken) == len(set(taken)) == 20


# ---- an operator beside a worker


async def test_a_heartbeat_never_refuses_an_operator(engine: Engine) -> None:
    """Renew and progress do not change the version."""
    ident, handle = await running(engine)
    before = (await row(engine, ident)).version
    await engine.renew(handle)
    await engine.progress(handle, 5)
    assert (await row(engine, ident)).version == before


async def test_an_increment_is_not_applied_twice_when_its_call_is_repeated(engine: Engine) -> None:
    ident, handle = await running(engine)
    await engine.fail(handle, "boom")
    await engine.fail(handle, "boom")
    await engine.fail(handle, "boom")
    found = await row(engine, ident)
    assert (found.retry_count, found.total_attempt_count) == (1, 1)
    assert (await attempt(engine, ident)).outcome == "retry"


async def test_every_operator_and_holder_call_leaves_the_index_equal_to_its_rows(
    engine: Engine,
) -> None:
    """What the ready index hands out is what the rows say."""
    idents = [await create(engine, priority=p) for p in (3, 1, 2)]
    await engine.change_priority(ChangePriorityArgs(execution_id=idents[1], new_priority=9))
    await engine.complete(await claim(engine))
    loaded = await engine.store.load(
        (Scan("ready", {"lane_id": "default", "namespace": "default", "gate": ""}),)
    )
    assert [r[1] for r in loaded.rows[0]] == [idents[0].uuid, idents[2].uuid]
