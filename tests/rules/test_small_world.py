"""Every operation in every legal state, by the right caller and by wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution
from flowfabric.model.lease import Grant
from flowfabric.plan import Applied, Plan, Refused
from flowfabric.rules.decision import Commit, Reject, Return
from flowfabric.rules.states import VECTORS, name_of, vector_of
from flowfabric.store.memory import MemoryStore

from .factory import (
    IDENT,
    NOW,
    attempt,
    commit,
    execution,
    fence,
    found,
    grant,
    handle,
    load,
    run,
    seeded,
    snapshot,
)
from .operations import HOLDERS, RULES, SWEEPS, Shown, why

LEASES = ("none", "live", "expired", "revoked")
FENCES = ("matches", "stale epoch", "stale lease", "missing")
ELSEWHERE = 8
OPEN = ("created", "started", "suspended")


class World(Struct, frozen=True):
    name: str
    execution: Execution
    attempt: Attempt | None
    grant: Grant | None
    neighbour: bool = True


def leased(of: Execution, lease: str) -> Execution:
    """The same state with another lease; its vector is unchanged, except for a revoked one."""
    held: dict[str, Any] = dict.fromkeys(
        (
            "current_lease_id",
            "current_worker_id",
            "current_worker_instance_id",
            "lease_expires_at_ms",
        )
    )
    if lease != "none":
        shown = execution("RUNNING", lease_expires_at_ms=NOW + 1_000 if lease == "live" else NOW)
        held = {column: getattr(shown, column) for column in held}
    if of.ownership_state == "leased":
        held["lease_expires_at_ms"] = held["lease_expires_at_ms"] or NOW
        held["current_lease_id"] = held["current_lease_id"] or of.current_lease_id
    if lease == "revoked":
        held["ownership_state"] = "lease_revoked"
    return replace(of, **held)


def states() -> Iterator[tuple[str, Execution]]:
    for name, vector in VECTORS.items():
        for reason, outcome, state in product(
            vector.blocking_reasons, vector.outcomes, vector.attempt_states
        ):
            for limit in (NOW, NOW + 500) if vector.ownership_state == "leased" else (None,):
                columns = {"deadline_at_ms": NOW, "attempt_timeout_at_ms": limit}
                found = execution(name, state, reason=reason, outcome=outcome, **columns)
                yield f"{name}/{reason}/{outcome}/{state}/{limit}", found


def worlds() -> Iterator[World]:
    for (name, of), lease in product(states(), LEASES):
        row = leased(of, lease)
        granted = {
            "none": None,
            "live": grant(),
            "expired": grant("reclaim"),
            "revoked": grant("reclaim", expires_in=-1),
        }[lease]
        yield World(f"{name} lease={lease}", row, attempt(row), granted, lease == "live")


WORLDS = list(worlds())


def shown(world: World, how: str) -> Shown:
    of = world.execution
    match how:
        case "matches":
            return Shown(handle(of), fence(of))
        case "stale epoch":
            return Shown(
                handle(of, lease_epoch=of.lease_epoch + 1),
                fence(of, lease_epoch=of.lease_epoch + 1),
            )
        case "stale lease":
            return Shown(handle(of, lease_id=IDENT.uuid), fence(of, lease_id=IDENT.uuid))
        case _:
            return Shown(handle(of, attempt_index=99), None)


def moved(row: Any) -> Any:
    return None if row is None else replace(row, partition_key=ELSEWHERE)


def store_of(world: World) -> MemoryStore:
    """The world; with a live lease, also the same rows in another partition."""
    rows = (world.execution, world.attempt, world.grant)
    return seeded(*rows, *(map(moved, rows) if world.neighbour else ()))


TABLES = (
    "ff_exec_core",
    "ff_attempt",
    "ff_claim_grant",
    "ff_lease_event",
    "ff_completion_event",
    "ff_operator_event",
)


Rows = dict[str, list[Any]]


def check_one_partition(world: World, rows: Rows, where: str) -> None:
    """The neighbour is untouched, and no event is filed under its partition."""
    expected = [
        moved(row) for row in (world.execution, world.attempt, world.grant) if row is not None
    ]
    kinds = zip((Execution, Attempt, Grant), TABLES, strict=False)
    assert [
        kind(*row) for kind, table in kinds for row in rows[table] if row[0] == ELSEWHERE
    ] == expected, where
    assert not any(ELSEWHERE in row for channel in TABLES[3:] for row in rows[channel]), where


def check_after(world: World, store: MemoryStore, rows: Rows, where: str) -> None:
    """The row is legal or unchanged, and the rows that belong to its state exist."""
    after = found(store)
    if after is None:
        assert where.startswith("trim "), where
        return
    before, seen = world.execution, vector_of(after)
    assert seen.public_state == after.public_state, where
    if vector_of(before) != seen:
        assert name_of(seen) is not None, (where, seen)
        assert VECTORS[name_of(seen) or ""].leaves_by, where
    if seen.ownership_state == "leased":
        assert None not in (
            after.current_lease_id,
            after.lease_expires_at_ms,
            after.current_attempt_id,
        ), where
    assert (after.terminal_at_ms is not None) == (seen.lifecycle_phase == "terminal"), where
    assert after.lease_epoch >= before.lease_epoch, where
    tries = [Attempt(*row) for row in rows["ff_attempt"] if row[0] != ELSEWHERE]
    assert sum(t.attempt_state in OPEN for t in tries) <= 1, where
    ended_now = (
        seen.lifecycle_phase == "terminal" and vector_of(before).lifecycle_phase != "terminal"
    )
    assert len(rows["ff_completion_event"]) == ended_now, where


def check_applied(world: World, plan: Plan, store: MemoryStore, where: str) -> None:
    rows: Rows = run(store.dump(TABLES))
    check_after(world, store, rows, where)
    if world.neighbour:
        check_one_partition(world, rows, where)


def check_refused(
    code: str, declared: frozenset[str], mark: Plan | None, world: World, where: str
) -> None:
    assert code in declared, (where, code)
    if mark is not None:
        store = store_of(world)
        assert isinstance(commit(store, mark), Applied), where
        check_applied(world, mark, store, where)


def test_the_small_world_holds_every_legal_state() -> None:
    legal = {name_of(vector_of(w.execution)) for w in WORLDS}
    assert legal == {*VECTORS, None}
    assert len(WORLDS) == 83 * len(LEASES)
    assert all(name_of(vector_of(w.execution)) or w.name.endswith("lease=revoked") for w in WORLDS)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_decides_every_world(name: str) -> None:
    op = RULES[name]
    acted = 0
    for world, how in product(WORLDS, FENCES if op.fenced else FENCES[:1]):
        where = f"{name} on {world.name}, fence {how}"
        seen = snapshot(world.execution, attempt=world.attempt, grant=world.grant)
        decision = op.decide(seen, shown(world, how))
        if isinstance(decision, Reject):
            check_refused(decision.error.code, op.declared, decision.mark, world, where)
        elif isinstance(decision, Commit):
            acted += 1
            store = store_of(world)
            assert isinstance(commit(store, decision.plan), Applied), where
            check_applied(world, decision.plan, store, where)
        else:
            assert isinstance(decision, Return), where
    assert acted, f"{name} never acted"


@pytest.mark.parametrize("name", [n for n in RULES if n not in ("trim",)])
def test_every_rule_decides_when_there_is_nothing(name: str) -> None:
    op = RULES[name]
    for held in (None, grant(), grant("reclaim"), grant("reclaim", expires_in=-1)):
        decision = op.decide(snapshot(None, grant=held), shown(WORLDS[0], "matches"))
        if isinstance(decision, Reject):
            assert decision.error.code in op.declared
        else:
            assert (
                isinstance(decision, Return)
                or decision.plan.form.steps[0].table == "ff_claim_grant"
            )


@pytest.mark.parametrize("name", HOLDERS)
def test_every_holders_call_is_applied_or_explained(name: str) -> None:
    op, acted = HOLDERS[name], 0
    for world in WORLDS:
        store = store_of(world)
        for how in reversed(FENCES):
            where = f"{name} on {world.name}, fence {how}"
            claim = shown(world, how)
            plan = op.plan(claim.handle)
            answer = commit(store, plan)
            if isinstance(answer, Applied):
                acted += 1
                assert how == "matches", where
                assert world.name == f"RUNNING/none/none/running_attempt/{NOW + 500} lease=live", (
                    where
                )
                check_applied(world, plan, store, where)
                continue
            reason = why(op, load(store, claim.handle.attempt_index), claim)
            assert reason is not None, f"{where}: refused without a reason"
            if isinstance(reason, Reject):
                check_refused(reason.error.code, op.declared, reason.mark, world, where)
            else:
                assert how == "matches" or world.attempt is None, where
    assert acted, f"{name} never acted"


@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_leaves_every_world_legal(name: str) -> None:
    taken = 0
    for world in WORLDS:
        where = f"{name} on {world.name}"
        store = seeded(world.execution, world.attempt, world.grant)
        taken += len(run(store.sweep(SWEEPS[name].plan, 10)))
        check_after(world, store, run(store.dump(TABLES)), where)
    assert taken, f"{name} never took anything"


VALID = World("running", execution("RUNNING"), attempt(execution("RUNNING")), None)


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("how", FENCES[1:])
def test_the_fence_alone_refuses_another_holder(name: str, how: str) -> None:
    """The holder's call succeeds right after another holder's was refused."""
    op, store = HOLDERS[name], store_of(VALID)
    stranger = shown(VALID, how)
    assert isinstance(commit(store, op.plan(stranger.handle)), Refused)
    reason = why(op, load(store, stranger.handle.attempt_index), stranger)
    assert isinstance(reason, Reject)
    assert reason.error.code == ("attempt_not_found" if how == "missing" else "lease_conflict")
    assert isinstance(commit(store, op.plan(shown(VALID, "matches").handle)), Applied)


@pytest.mark.parametrize("name", [name for name, op in RULES.items() if op.fenced])
@pytest.mark.parametrize("how", FENCES[1:3])
def test_the_triple_alone_refuses_another_holder(name: str, how: str) -> None:
    seen = snapshot(VALID.execution, attempt=VALID.attempt)
    refused = RULES[name].decide(seen, shown(VALID, how))
    assert isinstance(refused, Reject)
    says = "stale_lease" if "stale_lease" in RULES[name].declared else "lease_conflict"
    assert (refused.error.code, refused.mark) == (says, None)
    assert isinstance(RULES[name].decide(seen, shown(VALID, "matches")), Commit)
