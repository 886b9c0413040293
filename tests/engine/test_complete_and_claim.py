"""Completions and a claim in one round trip: the answers are those of separate calls."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flowfabric.engine.claims.routing import CHECK_EVERY_MS
from flowfabric.engine.engine import Engine
from flowfabric.errors import StateError, TransportError
from flowfabric.model.lease import Handle
from flowfabric.model.quota import CreateQuotaPolicyArgs
from flowfabric.testing import ManualClock

from .helpers import LANE, attempt, create, invalid, row, running, state, told, worker

DOCS = Path(__file__).parents[2] / "docs"


def _needing(capability: str) -> dict[str, Any]:
    return {"routing_requirements": {"required_capabilities": [capability]}}


async def test_one_completion_and_one_claim(engine: Engine, clock: ManualClock) -> None:
    first, handle = await running(engine)
    second = await create(engine, input_payload=b"in", priority=9)
    third = await create(engine)
    answers, (work,) = await engine.complete_and_claim([(handle, b"out")], LANE, (), worker(2), 1)
    assert answers == [None]
    assert await engine.get_execution_result(first) == b"out"
    assert (await told(engine, first))["DONE"] == ["success"]
    assert (work.execution_id, work.input_payload, work.attempt_index, work.lease_epoch) == (
        second,
        b"in",
        0,
        1,
    )
    assert (await attempt(engine, second)).worker_instance_id == worker(2).worker_instance_id
    assert [await state(engine, each) for each in (first, second, third)] == [
        "ENDED(success)",
        "RUNNING",
        "READY",
    ]
    await engine.complete(work.handle)


async def test_several_completions_and_claims(engine: Engine) -> None:
    held = [await running(engine) for _ in range(5)]
    waiting = [await create(engine, priority=n) for n in range(4)]
    answers, works = await engine.complete_and_claim(
        [(handle, None) for _, handle in held], LANE, (), worker(2), 3
    )
    assert answers == [None] * 5
    assert [work.execution_id for work in works] == [waiting[3], waiting[2], waiting[1]]


async def test_each_completion_has_its_own_answer(engine: Engine, clock: ManualClock) -> None:
    (_, stale), (good, one), (done, two) = [
        await running(engine, worker(ttl_ms=t)) for t in (1, 10_000, 10_000)
    ]
    await engine.complete(two, b"before")
    following = await create(engine)
    clock.advance(1)
    many: list[tuple[Handle, Any]] = [(one, b"r"), (stale, None), (two, b"again"), (one, "text")]
    answers, works = await engine.complete_and_claim(many, LANE, (), worker(2), 5)
    assert [getattr(answer, "code", None) for answer in answers] == [
        None,
        "lease_expired",
        None,
        "invalid_input",
    ]
    assert isinstance(answers[1], StateError)
    assert await engine.get_execution_result(good) == b"r"
    assert await engine.get_execution_result(done) == b"before"
    assert [work.execution_id for work in works] == [following]


async def test_an_empty_lane_claims_nothing(engine: Engine) -> None:
    ident, handle = await running(engine)
    assert await engine.complete_and_claim(
        [(handle, None)], LANE, (), worker(max_wait_ms=60_000), 1
    ) == ([None], [])
    assert await state(engine, ident) == "ENDED(success)"


async def test_without_completions_it_is_a_claim(engine: Engine) -> None:
    ident = await create(engine)
    answers, works = await engine.complete_and_claim([], LANE, (), worker(), 5)
    assert (answers, [work.execution_id for work in works]) == ([], [ident])


async def test_the_claim_respects_capabilities(engine: Engine) -> None:
    _, handle = await running(engine)
    await create(engine, policy=_needing("gpu"), priority=9)
    able = await create(engine, policy=_needing("cpu"))
    _, works = await engine.complete_and_claim([(handle, None)], LANE, ("cpu",), worker(), 5)
    assert [work.execution_id for work in works] == [able]


@pytest.mark.parametrize("n", [0, 10_000])
async def test_invalid_arguments_are_refused_before_any_completion(engine: Engine, n: int) -> None:
    ident, handle = await running(engine)
    await invalid(engine.complete_and_claim([(handle, None)], LANE, (), worker(), n), "n")
    await invalid(engine.complete_and_claim([(handle, None)], "", (), worker(), 1), "lane")
    assert await state(engine, ident) == "RUNNING"


async def test_a_completed_slot_of_a_quota_is_claimed_again(engine: Engine) -> None:
    quota = uuid4()
    await engine.create_quota_policy(CreateQuotaPolicyArgs(quota_policy_id=quota, max_concurrent=1))
    await engine.attach_limit("quota", quota, "lane", LANE)
    first, second, third = [await create(engine, priority=n) for n in (9, 5, 1)]
    (work,) = await engine.claim_many(LANE, (), worker(), 5)
    answers, works = await engine.complete_and_claim([(work.handle, None)], LANE, (), worker(), 5)
    assert (answers, [each.execution_id for each in works]) == ([None], [second])
    assert [await state(engine, each) for each in (first, second)] == ["ENDED(success)", "RUNNING"]
    assert (await row(engine, third)).lifecycle_phase == "runnable"


async def test_sixteen_concurrent_calls_claim_different_executions(engine: Engine) -> None:
    held = [await running(engine, worker(n)) for n in range(16)]
    waiting = {await create(engine) for _ in range(20)}
    turns = await asyncio.gather(
        *(
            engine.complete_and_claim([(handle, b"%d" % n)], LANE, (), worker(n), 1)
            for n, (_, handle) in enumerate(held)
        )
    )
    assert [answers for answers, _ in turns] == [[None]] * 16
    taken = [works[0] for _, works in turns]
    assert len({work.execution_id for work in taken} & waiting) == 16
    for n, (ident, _) in enumerate(held):
        assert await engine.get_execution_result(ident) == b"%d" % n
    for n, work in enumerate(taken):
        assert (await row(engine, work.execution_id)).current_worker_instance_id == worker(
            n
        ).worker_instance_id


async def test_a_failed_combined_commit_is_examined_per_completion(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, handle = await running(engine)
    await create(engine)

    async def broken(*_: object) -> Any:
        raise TransportError("store", "gone", backend_kind="connection")

    monkeypatch.setattr(engine.store, "commit_and_sweep", broken)
    assert await engine.complete_and_claim([(handle, b"out")], LANE, (), worker(), 1) == (
        [None],
        [],
    )
    assert await engine.get_execution_result(ident) == b"out"


async def test_a_failed_claim_keeps_the_completions(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota = uuid4()
    await engine.create_quota_policy(CreateQuotaPolicyArgs(quota_policy_id=quota, max_concurrent=5))
    await engine.attach_limit("quota", quota, "lane", LANE)
    await create(engine)
    (work,) = await engine.claim_many(LANE, (), worker(), 1)

    async def broken(*_: object) -> Any:
        raise TransportError("store", "gone")

    monkeypatch.setattr(engine.parts.gated, "claim", broken)
    assert await engine.complete_and_claim([(work.handle, b"out")], LANE, (), worker(), 1) == (
        [None],
        [],
    )
    assert await engine.get_execution_result(work.execution_id) == b"out"


async def test_claims_are_given_back_when_the_call_fails(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, handle = await running(engine)
    following = await create(engine)

    async def broken(*_: object, **__: object) -> bool:
        raise OverflowError

    with monkeypatch.context() as patch:
        patch.setattr(engine.parts.core, "after_commit", broken)
        with pytest.raises(OverflowError):
            await engine.complete_and_claim([(handle, None)], LANE, (), worker(), 1)
    await engine.promote_delayed(following)
    (work,) = await engine.claim_many(LANE, (), worker(2), 5)
    assert (work.execution_id, work.attempt_index) == (following, 0)


async def test_a_failed_route_check_loses_neither_answers_nor_claims(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, handle = await running(engine)
    following, looked = await create(engine), []

    async def away(*reads: object) -> Any:
        looked.append(reads)
        raise TransportError("store", "gone")

    clock.advance(CHECK_EVERY_MS)
    with monkeypatch.context() as patch:
        patch.setattr(engine.store, "load", away)
        answers, works = await engine.complete_and_claim([(handle, b"out")], LANE, (), worker(), 1)
    assert (answers, [work.execution_id for work in works], len(looked)) == ([None], [following], 1)
    assert [await state(engine, each) for each in (ident, following)] == [
        "ENDED(success)",
        "RUNNING",
    ]


async def test_the_documented_example_runs(engine: Engine) -> None:
    (shown,) = re.findall(
        r"```python\n(.*?)```", (DOCS / "leases.md").read_text(encoding="utf-8"), re.DOTALL
    )
    for _ in range(2):
        await create(engine, lane_id="greetings")
    policy = worker()
    (work,) = await engine.claim_many("greetings", (), policy, 1)
    said: dict[str, Any] = {"engine": engine, "work": work, "policy": policy}
    await eval(compile(shown, "leases.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), said)
    assert (said["answers"], len(said["works"])) == ([None], 1)
