"""Rows damaged in the database: each is held with its reason, and the others are claimed."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.errors import Corruption
from flowfabric.ids import ExecutionId
from flowfabric.loops.timers import LeaseExpiry
from flowfabric.model.attempt import TerminalFailed
from flowfabric.model.execution import CancelExecutionArgs, ReplayExecutionArgs
from flowfabric.model.explanation import Why
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, RoutingRequirements
from flowfabric.store.schema import TABLES
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import snapshot_of

from .flow_helpers import states, submit
from .helpers import LANE, claim, create, fields, lost, running, state, stored, told, worker
from .limit_helpers import quota_lane

in_sql = pytest.mark.parametrize("engine", ["sqlite-file", "postgres"], indirect=True)
on_sqlite = pytest.mark.parametrize("engine", ["sqlite-file"], indirect=True)
MANY = tuple(f"cap{n}" for n in range(9))
"""More than the store compares as whole lists."""


async def damage(engine: Engine, ident: ExecutionId, **columns: str) -> None:
    """`columns`: SQL of what they are to hold, for SQLite; where it is not JSON, Postgres takes
    JSON of another shape.
    """
    postgres = engine.store.label == "postgres"
    for column, text in columns.items():
        said = _FOR_POSTGRES.get(text, text) if postgres else text
        where = "$1" if postgres else "?"
        key = ident.uuid if postgres else ident.uuid.bytes
        sql = f"UPDATE ff_exec_core SET {column} = {said} WHERE execution_id = {where}"
        await engine.store.execute_for_test(sql, (key,))  # type: ignore[attr-defined]


TORN = "'{\"a\"'"
_FOR_POSTGRES = {TORN: "'[7]'", "'[\"a\",'": "'{a,NULL}'"}
TORN_LIST = "'[\"a\",'"


def held(caplog: pytest.LogCaptureFixture, ident: ExecutionId) -> list[str]:
    """The columns for which an execution was logged as held back."""
    return [
        getattr(record, "column", "")
        for record in caplog.records
        if record.levelno == logging.ERROR and getattr(record, "execution_id", "") == str(ident)
    ]


async def sound(engine: Engine) -> None:
    assert check(snapshot_of(await engine.store.dump(TABLES))) == []


@in_sql
@pytest.mark.parametrize("column", ["tags", "policy"])
async def test_an_unreadable_claimed_row_is_held_and_its_batch_is_returned(
    engine: Engine, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    idents = [await create(engine, priority=9 - n) for n in range(3)]
    await damage(engine, idents[1], **{column: TORN})
    works = await engine.claim_many(LANE, (), worker(), 10)
    assert [work.execution_id for work in works] == [idents[0], idents[2]]
    assert await state(engine, idents[1]) == "OPBLOCK"
    assert (await told(engine, idents[1]))["LEASE"] == ["acquired", "revoked"]
    assert held(caplog, idents[1]) == [column]
    assert await engine.claim_many(LANE, (), worker(), 10) == []
    await engine.complete(works[0].handle)
    await sound(engine)


@in_sql
async def test_explain_names_the_unreadable_column_and_an_operator_releases_it(
    engine: Engine,
) -> None:
    ident = await create(engine)
    await damage(engine, ident, tags=TORN)
    assert await engine.claim(LANE, (), worker()) is None
    reason = (await engine.explain_execution(ident)).reasons[0]
    assert reason.code is Why.PAUSED_BY_OPERATOR
    assert "tags cannot be read" in reason.says and f"release {ident.uuid}" in reason.hint
    with pytest.raises(Corruption, match=str(ident)) as caught:
        await engine.describe_execution(ident)
    assert caught.value.about == ident
    await damage(engine, ident, tags="'{}'")
    await engine.unblock_execution(ident)
    assert fields(await claim(engine)).execution_id == ident


@in_sql
async def test_complete_and_claim_returns_the_readable_claims(engine: Engine) -> None:
    _, handle = await running(engine)
    torn, whole = await create(engine, priority=5), await create(engine)
    await damage(engine, torn, tags=TORN)
    answers, works = await engine.complete_and_claim([(handle, b"x")], LANE, (), worker(), 5)
    assert answers == [None]
    assert [work.execution_id for work in works] == [whole]
    assert await state(engine, torn) == "OPBLOCK"


@in_sql
@pytest.mark.parametrize("offered", [("a",), MANY], ids=["few", "many"])
async def test_unreadable_capabilities_are_held_by_a_route_check(
    engine: Engine, offered: tuple[str, ...], clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    needs = RoutingRequirements(required_capabilities=("a",))
    torn = await create(engine, priority=9, policy=ExecutionPolicy(routing_requirements=needs))
    await damage(engine, torn, required_capabilities=TORN_LIST)
    first = await create(engine)
    assert fields(await claim(engine, capabilities=offered)).execution_id == first
    clock.advance(2_000)
    second = await create(engine)
    assert fields(await claim(engine, capabilities=offered)).execution_id == second
    assert await state(engine, torn) == "OPBLOCK"
    assert held(caplog, torn) == ["required_capabilities"]
    with pytest.raises(Corruption, match=str(torn)):
        await engine.unblock_execution(torn)
    assert "required_capabilities" in (await engine.explain_execution(torn)).reasons[0].says


@in_sql
async def test_explain_names_the_damage_before_any_claim(engine: Engine) -> None:
    torn = await create(engine)
    await damage(engine, torn, required_capabilities=TORN_LIST)
    reason = (await engine.explain_execution(torn)).reasons[0]
    assert reason.code is Why.UNKNOWN and "required_capabilities cannot be read" in reason.says


@in_sql
async def test_a_scheduler_skips_unreadable_rows(engine: Engine) -> None:
    torn, whole = await create(engine, priority=9), await create(engine)
    await damage(engine, torn, required_capabilities=TORN_LIST)
    granted = await engine.claim_for_worker(LANE, "w1", "w1-i1", (), 5_000)
    assert getattr(granted, "execution_id", None) == whole
    assert await state(engine, torn) == "OPBLOCK"


@in_sql
async def test_an_operator_cancels_an_unreadable_execution(engine: Engine) -> None:
    torn = await create(engine)
    await damage(engine, torn, required_capabilities=TORN_LIST, tags=TORN, raw_fields=TORN)
    await engine.cancel_execution(
        CancelExecutionArgs(execution_id=torn, reason="torn", source="operator_override")
    )
    assert await state(engine, torn) == "ENDED(cancelled)"
    with pytest.raises(Corruption, match="raw_fields"):
        await engine.replay_execution(ReplayExecutionArgs(execution_id=torn))


@in_sql
async def test_loops_skip_unreadable_rows(engine: Engine, clock: Any) -> None:
    torn, _ = await lost(engine, clock)
    whole, _ = await lost(engine, clock)
    await damage(engine, torn, required_capabilities=TORN_LIST, tags=TORN, policy=TORN)
    clock.advance(60_000)
    await LeaseExpiry(LoopSettings()).run(engine)
    assert [await state(engine, ident) for ident in (torn, whole)] == ["READY", "READY"]
    works = await engine.claim_many(LANE, MANY, worker(), 10)
    assert [work.execution_id for work in works] == [whole]


@in_sql
async def test_a_failure_under_an_unreadable_policy_is_a_typed_error(
    engine: Engine,
) -> None:
    ident, handle = await running(
        engine, policy=ExecutionPolicy(retry_policy=RetryPolicy(max_retries=0))
    )
    await damage(engine, ident, policy=TORN)
    assert isinstance(
        await engine.fail(handle, "boom"), TerminalFailed
    )  # the policy its lease began with
    again, handle = await running(
        engine, policy=ExecutionPolicy(retry_policy=RetryPolicy(max_retries=0))
    )
    await damage(engine, again, policy=TORN)
    other = Engine(engine.store)
    with pytest.raises(Corruption, match=str(again)):
        await other.fail(handle, "boom")


@on_sqlite
async def test_text_that_is_not_utf_8_does_not_block_the_lane(engine: Engine) -> None:
    idents = [await create(engine, priority=9 - n) for n in range(3)]
    await damage(engine, idents[1], tags="CAST(X'7b22ff' AS TEXT)")
    works = await engine.claim_many(LANE, (), worker(), 10)
    assert [work.execution_id for work in works] == [idents[0], idents[2]]
    assert await state(engine, idents[1]) == "OPBLOCK"
    with pytest.raises(Corruption, match="tags"):
        await engine.describe_execution(idents[1])
    found = await stored(engine, idents[0])
    assert found is not None and found.tags == "{}"


@in_sql
async def test_an_unreadable_row_behind_a_quota_does_not_block_others(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    await quota_lane(engine, cap=10)
    torn, unknown, whole = [await create(engine, priority=9 - n) for n in range(3)]
    await damage(engine, torn, required_capabilities=TORN_LIST)
    await damage(
        engine, unknown, budget_ids="'[\"none\"]'" if engine.store.label == "sqlite" else "'{none}'"
    )
    works = await engine.claim_many(LANE, (), worker(), 10)
    assert [work.execution_id for work in works] == [whole]
    assert [await state(engine, ident) for ident in (torn, unknown)] == ["OPBLOCK", "OPBLOCK"]
    assert held(caplog, torn) == ["required_capabilities"] and held(caplog, unknown) == [
        "budget_ids"
    ]


@in_sql
@pytest.mark.meets("flow", "cancel")
async def test_the_cancel_of_a_flow_includes_unreadable_members(engine: Engine) -> None:
    graph = await submit(engine, "a b c")
    await damage(
        engine, graph["b"], required_capabilities=TORN_LIST, tags=TORN, policy=TORN, raw_fields=TORN
    )
    answer = await engine.cancel_flow(graph.flow)
    assert set(answer.member_execution_ids) == set(graph.ids.values())
    assert await states(engine, graph) == dict.fromkeys("abc", "ENDED(cancelled)")
