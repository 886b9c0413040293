"""A worker that does not wait for what follows from its completion."""

from __future__ import annotations

import pytest

from flowfabric import ClaimPolicy, Engine
from flowfabric.engine.flows import cascade
from tests.engine.flow_helpers import submit
from tests.patience import patient

POLICY = ClaimPolicy("w", "w-1", 60_000)


async def test_the_end_is_durable_at_once_and_what_follows_comes_by_itself(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    first = await engine.claim("a", (), POLICY)
    assert first is not None
    await engine.complete(first, b"ok", settle=False)
    assert await engine.read_execution_state(graph["a"]) == "completed"
    await engine.parts.core.cascade.finish()
    assert await engine.read_execution_state(graph["b"]) == "waiting"


async def test_a_worker_that_waits_for_work_is_woken_by_what_follows(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    first = await engine.claim("a", (), POLICY)
    assert first is not None
    await engine.complete(first, settle=False)
    async with patient(20):
        second = await engine.claim("b", (), ClaimPolicy("w", "w-1", 60_000, max_wait_ms=15_000))
    assert second is not None and engine.fields(second).execution_id == graph["b"]


async def test_an_engine_that_closes_sees_to_what_is_left(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    first = await engine.claim("a", (), POLICY)
    assert first is not None
    await engine.complete(first, settle=False)
    await engine.parts.core.cascade.finish()
    assert await engine.dispatch_completions(grace_ms=0) == 0, "nothing is left for the reconciler"
    assert await engine.evaluate_flow_eligibility(graph["b"]) == "eligible"


async def test_who_is_far_ahead_waits_after_all(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = await submit(engine, "a>b")
    first = await engine.claim("a", (), POLICY)
    assert first is not None
    monkeypatch.setattr(cascade, "MAX_ROUND", 1)
    await engine.complete(first, settle=False)
    assert await engine.read_execution_state(graph["b"]) == "waiting"
