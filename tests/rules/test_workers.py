from __future__ import annotations

import pytest

from flowfabric.errors import ValidationError
from flowfabric.model.worker import (
    Marked,
    NotRegistered,
    Refreshed,
    Registered,
    RegisterWorkerArgs,
    WorkerInfo,
)
from flowfabric.plan import Applied, Plan, Refused
from flowfabric.rules.decision import Commit, Decision, Reject
from flowfabric.rules.workers import registry
from flowfabric.store.memory import MemoryStore
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock

from .factory import NOW, answer, commit, run

ARGS = RegisterWorkerArgs(
    worker_id="w",
    worker_instance_id="w-1",
    lanes=frozenset({"b", "a"}),
    capabilities=frozenset({"gpu", "eu"}),
    liveness_ttl_ms=500,
)
STORED = WorkerInfo(
    "default", "w-1", "w", ("old",), (), NOW - 100, 1_000, NOW + 900, NOW - 5_000, 4
)


def worker(store: MemoryStore) -> WorkerInfo | None:
    rows = run(store.dump(("ff_worker_registry",)))["ff_worker_registry"]
    return WorkerInfo(*rows[0]) if rows else None


def noted(store: MemoryStore) -> list[tuple[str, int, str | None]]:
    names = TABLES["ff_worker_registry_event"].names
    rows = [
        dict(zip(names, row, strict=True))
        for row in run(store.dump(("ff_worker_registry_event",)))["ff_worker_registry_event"]
    ]
    assert all((row["namespace"], row["worker_instance_id"]) == ("default", "w-1") for row in rows)
    return [(row["event_kind"], row["event_at_ms"], row["reason"]) for row in rows]


def plan_of(decision: Decision) -> Plan:
    assert isinstance(decision, Commit)
    return decision.plan


def registered(now: int = NOW) -> MemoryStore:
    store = MemoryStore(ManualClock(NOW))
    assert isinstance(commit(store, plan_of(registry.register(None, ARGS, now))), Applied)
    return store


def test_a_new_worker_is_registered() -> None:
    decision = registry.register(None, ARGS, NOW - 7)
    assert isinstance(decision, Commit) and decision.result == Registered()
    store = registered(NOW - 7)
    assert worker(store) == WorkerInfo(
        "default", "w-1", "w", ("a", "b"), ("eu", "gpu"), NOW - 7, 500, NOW + 493, NOW - 7, 0
    )
    assert noted(store) == [("registered", NOW - 7, None)]


def test_registering_again_refreshes_and_keeps_the_first_time() -> None:
    store = registered()
    first = worker(store)
    decision = registry.register(first, ARGS, NOW + 100)
    assert isinstance(decision, Commit) and decision.result == Refreshed(NOW + 600)
    assert isinstance(commit(store, decision.plan), Applied)
    again = worker(store)
    assert again is not None
    assert (
        again.registered_at_ms,
        again.last_heartbeat_ms,
        again.expires_at_ms,
        again.version,
    ) == (NOW, NOW + 100, NOW + 600, 1)
    assert noted(store) == [("registered", NOW, None), ("registered", NOW + 100, None)]
    assert commit(store, decision.plan) == Refused()


def test_a_refresh_overwrites_the_declaration_of_the_worker() -> None:
    decision = registry.register(STORED, ARGS, NOW)
    assert isinstance(decision, Commit)
    said = dict(zip(decision.plan.form.args, decision.plan.values, strict=True))
    assert (said["lanes"], said["capabilities"], said["liveness_ttl_ms"], said["version"]) == (
        ("a", "b"),
        ("eu", "gpu"),
        500,
        4,
    )


def test_an_instance_cannot_change_its_worker() -> None:
    decision = registry.register(
        WorkerInfo("default", "w-1", "other", (), (), NOW, 1, NOW - 1, NOW), ARGS, NOW
    )
    assert isinstance(decision, Reject) and isinstance(decision.error, ValidationError)
    assert decision.error.code == "invalid_input"
    assert "instance_id reassigned" in decision.error.detail


@pytest.mark.parametrize(("expires", "alive"), [(NOW + 1, True), (NOW, False), (NOW - 1, False)])
def test_a_heartbeat_counts_until_the_liveness_ttl_has_passed(expires: int, alive: bool) -> None:
    known = WorkerInfo("default", "w-1", "w", (), (), NOW - 10, 700, expires, NOW - 10)
    decision = registry.heartbeat(known, NOW)
    if alive:
        assert isinstance(decision, Commit) and decision.result == Refreshed(NOW + 700)
    else:
        assert answer(decision) == NotRegistered()


def test_a_heartbeat_of_an_unknown_worker() -> None:
    assert answer(registry.heartbeat(None, NOW)) == NotRegistered()


def test_a_heartbeat_moves_the_expiry_and_nothing_else() -> None:
    store = registered()
    before = worker(store)
    assert isinstance(commit(store, plan_of(registry.heartbeat(before, NOW + 50))), Applied)
    after = worker(store)
    assert after == WorkerInfo(
        "default", "w-1", "w", ("a", "b"), ("eu", "gpu"), NOW + 50, 500, NOW + 550, NOW, 1
    )


def test_a_heartbeat_writes_an_event() -> None:
    store = registered()
    commit(store, plan_of(registry.heartbeat(worker(store), NOW + 50)))
    assert noted(store) == [("registered", NOW, None), ("heartbeat", NOW + 50, None)]


def test_a_late_heartbeat_is_refused_by_the_store() -> None:
    store = registered()
    late = {
        "namespace": "default",
        "worker_instance_id": "w-1",
        "now": NOW + 500,
        "expires_at_ms": NOW + 1_000,
        "version": 0,
    }
    assert commit(store, registry.HEARTBEAT(**late)) == Refused()
    assert isinstance(commit(store, registry.HEARTBEAT(**{**late, "now": NOW + 499})), Applied)


def test_a_dead_worker_is_removed_with_an_event_and_the_reason() -> None:
    assert answer(registry.mark_dead(None, "gone", NOW)) == NotRegistered()
    store = registered()
    decision = registry.mark_dead(worker(store), "gone", NOW + 3)
    assert isinstance(decision, Commit) and decision.result == Marked()
    assert isinstance(commit(store, decision.plan), Applied)
    assert worker(store) is None
    assert noted(store)[-1] == ("marked_dead", NOW + 3, "gone")
    assert commit(store, decision.plan) == Refused()


def test_a_silent_worker_is_dropped_unless_it_sent_a_heartbeat_in_between() -> None:
    store = registered()
    seen = worker(store)
    assert seen is not None
    commit(store, plan_of(registry.heartbeat(seen, NOW + 50)))
    assert commit(store, registry.drop_silent(seen, NOW + 900)) == Refused()
    spoke = worker(store)
    assert spoke is not None
    assert isinstance(commit(store, registry.drop_silent(spoke, NOW + 900)), Applied)
    assert worker(store) is None
    assert noted(store)[-1] == ("ttl_swept", NOW + 900, None)


def test_an_old_worker_event_is_removed_by_its_id() -> None:
    store = registered()
    assert commit(store, registry.FORGET_EVENT(event_id=2)) == Refused()
    assert isinstance(commit(store, registry.FORGET_EVENT(event_id=1)), Applied)
    assert noted(store) == []


def offering(*capabilities: str, namespace: str = "default") -> WorkerInfo:
    return WorkerInfo(namespace, "i", "w", (), capabilities, NOW, 1, NOW, NOW)


@pytest.mark.parametrize(
    ("live", "required", "covered"),
    [
        ([], (), False),
        ([offering()], (), True),
        ([offering("a")], ("a",), True),
        ([offering("a", "b")], ("a",), True),
        ([offering("a")], ("a", "b"), False),
        ([offering("a"), offering("b")], ("a", "b"), False),
        ([offering("x"), offering("b", "a")], ("a", "b"), True),
        ([offering("a", namespace="other")], ("a",), False),
    ],
)
def test_one_live_worker_must_have_everything(
    live: list[WorkerInfo], required: tuple[str, ...], covered: bool
) -> None:
    assert registry.covers(live, "default", required) is covered
