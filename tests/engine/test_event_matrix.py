"""The events of each operation: suspensions, signals, time limits and flows.
`test_lifecycle_events` has the rest.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.flow import CancelFlowArgs
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, TimeoutPolicy
from flowfabric.testing import ManualClock

from .flow_helpers import Graph, finish, hold, submit
from .helpers import outbox, running, two_stores
from .suspend_helpers import Parked, duplicate, park, park_held, pending, seed, signal, signal_args

IN_MS = 1_000
EVENTS = {
    "lease": ("ff_lease_event", "event_type"),
    "completion": ("ff_completion_event", "outcome"),
    "signal": ("ff_signal_event", "event_type"),
    "operator": ("ff_operator_event", "event_type"),
}


async def told_since(
    engine: Engine, act: Callable[[], Awaitable[Any]]
) -> dict[str, list[tuple[Any, str]]]:
    """What was written meanwhile: about whom, and the word; channels that were silent
    are left out.
    """
    before = {name: len(await outbox(engine, table)) for name, (table, _) in EVENTS.items()}
    await act()
    after = {
        name: [(e["execution_id"], e[word]) for e in (await outbox(engine, table))[before[name] :]]
        for name, (table, word) in EVENTS.items()
    }
    return {name: events for name, events in after.items() if events}


def about(ident: ExecutionId, **words: str) -> dict[str, list[tuple[Any, str]]]:
    return {name: [(ident.uuid, word)] for name, word in words.items()}


@two_stores
async def test_suspend_lets_the_lease_go(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    assert await told_since(engine, lambda: park_held(engine, ident, held)) == about(
        ident, lease="revoked"
    )


@two_stores
async def test_a_signal_has_an_event_and_the_last_one_makes_it_resumable(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held, "ahead")
    early = await told_since(engine, lambda: engine.deliver_signal(signal_args(ident, ahead)))
    assert early == about(ident, signal="buffered_for_pending_waitpoint")
    parked = await park_held(engine, ident, held)
    satisfied = await told_since(engine, lambda: signal(engine, parked, idempotency_key="k"))
    assert satisfied == about(ident, signal="resume_condition_satisfied", completion="resumable")
    assert await told_since(engine, lambda: duplicate(engine, parked, idempotency_key="k")) == {}


@two_stores
@pytest.mark.parametrize(
    ("behavior", "told"),
    [
        ("fail", {"completion": "failed"}),
        ("expire", {"completion": "expired"}),
        ("cancel", {"completion": "cancelled"}),
        ("escalate", {}),
    ],
)
async def test_a_suspension_timeout_tells_only_of_an_end(
    engine: Engine, clock: ManualClock, behavior: str, told: dict[str, str]
) -> None:
    await seed(engine)
    parked: Parked = await park(engine, timeout_at=clock() + IN_MS, timeout_behavior=behavior)
    clock.advance(IN_MS)
    assert await told_since(engine, lambda: engine.expire_suspension(parked.ident)) == about(
        parked.ident, **told
    )


@two_stores
@pytest.mark.parametrize("phase", ["attempt_timeout", "execution_deadline"])
async def test_a_time_limit_takes_the_lease_and_ends_it(
    engine: Engine, clock: ManualClock, phase: str
) -> None:
    limits = ExecutionPolicy(
        timeout_policy=TimeoutPolicy(attempt_timeout_ms=IN_MS),
        retry_policy=RetryPolicy(max_retries=0, backoff={}),
    )
    ident, _ = await running(engine, policy=limits, execution_deadline_at=clock() + IN_MS)
    clock.advance(IN_MS)
    written = await told_since(engine, lambda: engine.expire_execution(ident, phase))
    assert written == about(ident, lease="revoked", completion="expired")


@two_stores
async def test_waiting_for_children_lets_the_lease_go(engine: Engine) -> None:
    graph = await submit(engine, "p c")
    held = await hold(engine, graph, "p")
    written = await told_since(engine, lambda: engine.wait_children(held))
    assert written == about(graph["p"], lease="revoked")


@two_stores
async def test_a_dependency_made_impossible_has_a_skipped_event(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    written = await told_since(engine, lambda: finish(engine, graph, "a", "failed"))
    assert written["completion"] == [(graph["a"].uuid, "failed"), (graph["b"].uuid, "skipped")]
    assert written["lease"] == [(graph["a"].uuid, "acquired"), (graph["a"].uuid, "revoked")]


@two_stores
async def test_cancelling_a_flow_ends_each_member_and_has_one_operator_event(
    engine: Engine,
) -> None:
    graph = await submit(engine, "a b>c")
    await hold(engine, graph, "a")
    written = await told_since(engine, lambda: engine.cancel_flow_header(_cancel(graph)))
    assert sorted(written["completion"]) == sorted((graph[n].uuid, "cancelled") for n in "abc")
    assert written["lease"] == [(graph["a"].uuid, "revoked")]
    assert written["operator"] == [(graph.flow, "flow_cancel_requested")]
    details = json.loads((await outbox(engine, "ff_operator_event"))[-1]["details"])
    assert set(details) == {"flow_id", "cancellation_policy", "reason", "member_count"}
    assert await told_since(engine, lambda: engine.ack_cancel_member(graph.flow, graph["a"])) == {}


def _cancel(graph: Graph) -> CancelFlowArgs:
    return CancelFlowArgs(flow_id=graph.flow, reason="enough", cancellation_policy="cancel_all")
