from __future__ import annotations

import pytest

from flowfabric.engine.executions.create import KeyRow
from flowfabric.model.execution import Execution
from flowfabric.model.flow import Edge, EdgeGroup, Flow
from flowfabric.plan import Applied, Refused
from flowfabric.rules.decision import Commit
from flowfabric.rules.flows import cancels
from flowfabric.rules.leases import attempts
from flowfabric.rules.states import VECTORS
from flowfabric.rules.workers import retention
from flowfabric.store.memory import MemoryStore

from .factory import (
    FLOW_ID,
    IDENT,
    NOW,
    applied,
    attempt,
    commit,
    execution,
    grant,
    handle,
    load,
    run,
    seeded,
    stored,
    told,
)
from .flow_factory import OTHER_FLOW, edge, flow, group, ident, kept, rows, waiting


@pytest.mark.parametrize("outcome", VECTORS["ENDED"].outcomes)
def test_trimming_removes_all_its_rows(outcome: str) -> None:
    before = execution("ENDED", outcome=outcome)
    store = seeded(before, attempt(before), grant())
    assert isinstance(commit(store, retention.trim(before)), Applied)
    gone = load(store)
    assert (gone.execution, gone.attempt, gone.grant) == (None, None, None)
    assert commit(store, retention.trim(before)) == Refused()


def test_trimming_removes_its_events_and_records_the_position() -> None:
    running = execution("RUNNING")
    store = applied(Commit(attempts.complete(handle(running), None)), running, attempt(running))
    assert told(store) == (["revoked"], ["success"], [])
    assert isinstance(commit(store, retention.trim(stored(store))), Applied)
    assert told(store) == ([], [], [])
    trimmed = run(store.dump(("ff_outbox_trim",)))["ff_outbox_trim"]
    assert sorted(trimmed) == [("ff_completion_event", 1), ("ff_lease_event", 1)]


@pytest.mark.parametrize("name", [name for name in VECTORS if name != "ENDED"])
def test_live_executions_are_never_trimmed(name: str) -> None:
    store = seeded(execution(name))
    assert commit(store, retention.trim(execution(name))) == Refused()


def test_a_replay_in_between_rescues_the_row() -> None:
    before = execution("ENDED")
    store = seeded(execution("ENDED", version=before.version + 1))
    assert commit(store, retention.trim(before)) == Refused()


OUT = {"upstream_eid": IDENT.uuid, "downstream_eid": ident(0).uuid}


@pytest.mark.parametrize(
    ("outgoing", "trimmed"),
    [
        (edge(0, **OUT), False),
        (edge(0, **OUT, flow_id=OTHER_FLOW), False),
        (edge(0, **OUT, applied=False), True),
        (edge(0, **{**OUT, "dep_state": "satisfied"}), True),
        (edge(0, **{**OUT, "dep_state": "impossible"}), True),
        (edge(0, **OUT, partition_key=IDENT.partition_index + 1), True),
        (edge(0), True),
    ],
)
def test_the_upstream_of_an_open_edge_is_kept(outgoing: Edge, trimmed: bool) -> None:
    before = waiting("ENDED", outcome="failed")
    store = seeded(before, outgoing)
    assert isinstance(commit(store, retention.trim(before)), Applied) is trimmed
    assert (load(store).execution is None) is trimmed
    assert kept(store, Edge) == [outgoing]


def test_one_open_edge_among_many_is_enough() -> None:
    before = waiting("ENDED")
    settled = [edge(n, **{**OUT, "dep_state": "satisfied"}) for n in (1, 2)]
    assert isinstance(
        commit(seeded(before, *settled, edge(3, **OUT)), retention.trim(before)), Refused
    )


def test_trimming_a_member_keeps_the_flow_and_removes_its_backlog() -> None:
    before, resolved = waiting("ENDED"), edge(0, **{**OUT, "dep_state": "satisfied"})
    store = seeded(flow(), before, resolved, group())
    owner = {"partition_key": before.partition_key, "flow_id": FLOW_ID}
    for member in (IDENT, ident(5)):
        commit(store, cancels.ADD_BACKLOG_MEMBER(**owner, execution_id=str(member)))
    assert isinstance(commit(store, retention.trim(before)), Applied)
    assert (kept(store, Flow), kept(store, Edge), kept(store, EdgeGroup)) == (
        [flow()],
        [resolved],
        [group()],
    )
    assert [row["execution_id"] for row in rows(store, "ff_cancel_backlog_member")] == [
        str(ident(5))
    ]


def key_of(before: Execution, expires: int) -> KeyRow:
    owner = before.partition_key, before.execution_id
    return KeyRow(before.namespace, "k", *owner, expires, None)


def times_of_keys(store: MemoryStore) -> list[int | None]:
    return [row["expires_at_ms"] for row in rows(store, "ff_idempotency")]


@pytest.mark.parametrize(("expires", "is_over"), [(NOW, True), (NOW - 1, True), (NOW + 1, False)])
@pytest.mark.parametrize("kept", [False, True])
def test_an_expired_key_is_removed_or_left_to_its_execution(
    expires: int, is_over: bool, kept: bool
) -> None:
    before = waiting("ENDED", idempotency_key="k")
    store = seeded(before if kept else None, key_of(before, expires))
    forget = retention.forget_key(
        (before.namespace, "k", before.partition_key, before.execution_id), NOW, kept=kept
    )
    assert isinstance(commit(store, forget), Applied) is is_over
    assert times_of_keys(store) == ([expires] if not is_over else [None] if kept else [])


@pytest.mark.parametrize("kept", [False, True])
def test_a_key_decision_is_refused_after_its_execution_changed(kept: bool) -> None:
    before = waiting("ENDED", idempotency_key="k")
    store = seeded(None if kept else before, key_of(before, NOW))
    forget = retention.forget_key(
        (before.namespace, "k", before.partition_key, before.execution_id), NOW, kept=kept
    )
    assert isinstance(commit(store, forget), Refused)


@pytest.mark.parametrize(("expires", "left"), [(NOW, []), (NOW + 1, [NOW + 1])])
def test_an_expired_key_is_removed_with_its_execution(expires: int, left: list[int]) -> None:
    before = waiting("ENDED", idempotency_key="k")
    store = seeded(before, key_of(before, expires))
    commit(store, retention.trim(before))
    assert times_of_keys(store) == left


@pytest.mark.parametrize(
    ("phases", "parent", "unfinished"),
    [
        ([], None, False),
        (["terminal", "cancelled"], None, False),
        (["terminal", "runnable"], None, True),
        (["terminal"], "terminal", False),
        (["terminal"], "suspended", True),
    ],
)
def test_a_flow_is_unfinished_while_a_member_or_its_parent_is(
    phases: list[str], parent: str | None, unfinished: bool
) -> None:
    assert retention.is_unfinished(phases, parent) is unfinished


@pytest.mark.parametrize(("joined", "removed"), [(0, True), (1, False)])
def test_a_flow_is_removed_with_its_last_members_unless_another_joined(
    joined: int, removed: bool
) -> None:
    before, resolved = waiting("ENDED"), edge(0, **{**OUT, "dep_state": "satisfied"})
    store = seeded(flow(version=flow().version + joined), before, resolved, group())
    answer = run(store.commit_together(retention.trim_whole(flow(), [before])))
    assert isinstance(answer, Applied) is removed
    assert (load(store).execution is None) is removed
    assert all((not kept(store, kind)) is removed for kind in (Flow, Edge, EdgeGroup))
