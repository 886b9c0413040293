"""Ends and a claim in one transaction: all or nothing where the database fails, each by itself where one of them does."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from flowfabric.connect import SqliteBackend
from flowfabric.engine.engine import Engine
from flowfabric.errors import Contention, EngineError, ResourceExhausted, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Handle, Work
from flowfabric.plan import Applied, Arg, Form, Plan, Refused, Update
from flowfabric.rules.claims import claims
from flowfabric.rules.leases import attempts
from flowfabric.store.sqlite import group_commit as groups_module
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, world_of
from tests.engine.helpers import LANE, create, dump, fields, running, state, told, worker
from tests.store.conformance.helpers import EXEC, KEY

from .helpers import failing

STEPS = ("BEGIN IMMEDIATE", "SELECT", "UPDATE", "INSERT", "DELETE", "COMMIT")
"""What a turn runs. Only a claim deletes something, when all ends of the turn are written."""
LATER = Form("t_later", Update(EXEC, KEY, {"attempt_timeout_ms": Arg("ms")}))
Held = tuple[ExecutionId, Handle]
wherever = pytest.mark.parametrize("by_thread", [False, True], ids=["in place", "by the thread"])


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the writer would have slept."""
    slept: list[float] = []
    monkeypatch.setattr(groups_module, "time", SimpleNamespace(sleep=slept.append))
    return slept


def written(engine: SqliteBackend, by_thread: bool) -> None:
    engine.store._writer._wary = 1_000_000 if by_thread else 0


def end(held: Held, result: Any = b"out") -> Plan:
    return attempts.complete(fields(held[1]), result)


def take(number: int = 2, ttl_ms: Any = 1_000) -> Plan:
    plan = claims.claim(
        lane=LANE,
        namespace="default",
        capabilities=(),
        worker_id=f"w{number}",
        instance=f"w{number}-i1",
        ttl_ms=1_000,
    )
    at = plan.form.args.index("lease_ttl_ms")
    return structs.replace(plan, values=(*plan.values[:at], ttl_ms, *plan.values[at + 1 :]))


async def turn(
    engine: Engine, *held: Held, n: int = 2
) -> tuple[list[EngineError | None], list[Work]]:
    return await engine.complete_and_claim(
        [(handle, b"out") for _, handle in held], LANE, (), worker(2), n
    )


async def check_done(engine: Engine, held: list[Held], taken: list[ExecutionId]) -> None:
    for ident, _ in held:
        assert await told(engine, ident) == {
            "LEASE": ["acquired", "revoked"],
            "DONE": ["success"],
            "OPER": [],
        }
    for ident in taken:
        assert (await state(engine, ident), (await told(engine, ident))["LEASE"]) == (
            "RUNNING",
            ["acquired"],
        )
    assert check(world_of(await engine.store.dump(TABLES_READ))) == []


@wherever
@pytest.mark.parametrize("step", STEPS)
async def test_a_busy_database_costs_a_try_and_nothing_is_done_twice(
    sqlite: SqliteBackend, pauses: list[float], step: str, by_thread: bool
) -> None:
    held, waiting = await running(sqlite), await create(sqlite)
    written(sqlite, by_thread)
    cursor = failing(sqlite.store, step, 5, 2)
    answers, works = await turn(sqlite, held)
    assert (answers, [work.execution_id for work in works], cursor.left) == ([None], [waiting], 0)
    await check_done(sqlite, [held], [waiting])


@wherever
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("code", "kind"), [(5, Contention), (13, ResourceExhausted), (10, TransportError)]
)
async def test_a_transaction_that_fails_leaves_nothing(
    sqlite: SqliteBackend,
    pauses: list[float],
    step: str,
    code: int,
    kind: type[EngineError],
    by_thread: bool,
) -> None:
    """Nor anybody woken. After a disk error nothing is written any more."""
    held = [await running(sqlite) for _ in range(2)]
    await create(sqlite)
    written(sqlite, by_thread)
    before, rung = await dump(sqlite), list[object]()
    sqlite.store.hub.announce = lambda topics, dues: rung.extend([*topics, *dues])  # type: ignore[method-assign]
    cursor = failing(sqlite.store, step, code, 100)
    with pytest.raises(kind):
        await sqlite.store.commit_and_sweep([end(each) for each in held], take(), 2)
    assert cursor.raised and await dump(sqlite) == before and rung == []
    answers, works = await turn(sqlite, *held)
    alone = step == "DELETE" and code != 10  # then the ends go through by themselves
    assert ([type(answer) for answer in answers], works) == (
        [type(None) if alone else kind] * 2,
        [],
    )
    assert (await dump(sqlite) == before) is not alone


async def test_where_it_fails_once_the_ends_are_sent_again_by_themselves(
    sqlite: SqliteBackend,
) -> None:
    held, waiting = [await running(sqlite) for _ in range(2)], await create(sqlite)
    failing(sqlite.store, "COMMIT", 13, 1)
    assert await turn(sqlite, *held) == ([None, None], [])
    await check_done(sqlite, held, [])
    assert await state(sqlite, waiting) == "READY"


async def test_a_bad_plan_costs_neither_its_own_turn_nor_the_others(sqlite: SqliteBackend) -> None:
    """All in one transaction, each with a savepoint of its own."""
    held, waiting = (
        [await running(sqlite) for _ in range(6)],
        [await create(sqlite) for _ in range(4)],
    )
    written(sqlite, True)
    said = list[str]()
    sqlite.store._writer.write._db.set_trace_callback(said.append)
    many = [[end(held[0])], [end(held[1]), end(held[2], object()), end(held[3])], [end(held[4])]]
    turns = [sqlite.store.commit_and_sweep(plans, take(at), 1) for at, plans in enumerate(many)]
    *done, alone, swept = await asyncio.gather(
        *turns, sqlite.store.commit(end(held[5])), sqlite.store.sweep(take(7), 1)
    )
    (one, two, three), applied = (
        [answers for answers, _ in done],
        Applied(await sqlite.server_time_ms(), (None,)),
    )
    assert (one, two[0], two[2], three, alone) == ([applied], applied, applied, [applied], applied)
    assert isinstance(two[1], Exception)
    assert sorted(
        row[1] for rows in (*(rows for _, rows in done), swept) for row in rows
    ) == sorted(i.uuid for i in waiting)
    assert (said.count("COMMIT"), said.count("ROLLBACK")) == (1, 1)
    assert await state(sqlite, held.pop(2)[0]) == "RUNNING"
    await check_done(sqlite, held, waiting)


async def test_a_bad_sweep_costs_only_itself(sqlite: SqliteBackend) -> None:
    held, waiting = (
        [await running(sqlite) for _ in range(3)],
        [await create(sqlite) for _ in range(2)],
    )
    written(sqlite, True)
    turns = await asyncio.gather(
        *(
            sqlite.store.commit_and_sweep([end(each)], take(at, object() if at == 1 else 1_000), 1)
            for at, each in enumerate(held)
        ),
        return_exceptions=True,
    )
    assert [isinstance(each, Exception) for each in turns] == [False, True, False]
    taken = [each[1][0][1] for each in turns if not isinstance(each, BaseException)]
    assert sorted(taken) == sorted(ident.uuid for ident in waiting)
    await check_done(sqlite, held, waiting)
    assert await sqlite.store.commit_many([end(each) for each in held]) == [Refused()] * 3


async def test_what_can_never_be_claimed_hinders_no_end(in_sql: Engine) -> None:
    """A row that no statement can turn into a lease: the ends beside it stand, and are told so."""
    held, waiting = [await running(in_sql) for _ in range(2)], await create(in_sql)
    key = {"partition_key": waiting.partition_index, "execution_id": waiting.uuid}
    assert isinstance(await in_sql.store.commit(LATER(**key, ms=2**63 - 1)), Applied)
    assert await turn(in_sql, *held) == ([None, None], [])
    await check_done(in_sql, held, [])
    with pytest.raises((OverflowError, EngineError)):
        await in_sql.claim_many(LANE, (), worker(2), 1)
