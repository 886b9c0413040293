from __future__ import annotations

import pytest

from flowfabric.model.flow import Edge, EdgeGroup, Flow
from flowfabric.plan import Applied, Refused
from flowfabric.rules import attempts, flow_cancels, retention
from flowfabric.rules.creating import TAKE_KEY
from flowfabric.rules.decision import Act
from flowfabric.rules.states import VECTORS
from flowfabric.store.memory import MemoryStore
from flowfabric.testing import ManualClock

from .factory import FLOW_ID, IDENT, NOW, applied, attempt, commit, execution, grant, handle, load, run, seeded, stored, told
from .flow_factory import OTHER_FLOW, edge, flow, group, ident, kept, rows, waiting


@pytest.mark.parametrize("outcome", VECTORS["ENDED"].outcomes)
def test_trimming_takes_everything_that_belongs_to_it(outcome: str) -> None:
    before = execution("ENDED", outcome=outcome)
    store = seeded(before, attempt(before), grant())
    assert isinstance(commit(store, retention.trim(before)), Applied)
    gone = load(store)
    assert (gone.execution, gone.attempt, gone.grant) == (None, None, None)
    assert commit(store, retention.trim(before)) == Refused()


def test_trimming_takes_its_events_and_remembers_how_far() -> None:
    running = execution("RUNNING")
    store = applied(Act(attempts.complete(handle(running), None)), running, attempt(running))
    assert told(store) == (["revoked"], ["success"], [])
    assert isinstance(commit(store, retention.trim(stored(store))), Applied)
    assert told(store) == ([], [], [])
    trimmed = run(store.dump(("ff_outbox_trim",)))["ff_outbox_trim"]
    assert sorted(trimmed) == [("ff_completion_event", 1), ("ff_lease_event", 1)]


@pytest.mark.parametrize("name", [name for name in VECTORS if name != "ENDED"])
def test_what_is_not_over_is_never_trimmed(name: str) -> None:
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
def test_what_somebody_waits_for_is_kept(outgoing: Edge, trimmed: bool) -> None:
    before = waiting("ENDED", outcome="failed")
    store = seeded(before, outgoing)
    assert isinstance(commit(store, retention.trim(before)), Applied) is trimmed
    assert (load(store).execution is None) is trimmed
    assert kept(store, Edge) == [outgoing]


def test_one_open_edge_among_many_is_enough() -> None:
    before = waiting("ENDED")
    settled = [edge(n, **{**OUT, "dep_state": "satisfied"}) for n in (1, 2)]
    assert isinstance(commit(seeded(before, *settled, edge(3, **OUT)), retention.trim(before)), Refused)


def test_trimming_a_member_leaves_the_flow_and_takes_what_it_was_owed() -> None:
    before, resolved = waiting("ENDED"), edge(0, **{**OUT, "dep_state": "satisfied"})
    store = seeded(flow(), before, resolved, group())
    owner = {"partition_key": before.partition_key, "flow_id": FLOW_ID}
    for member in (IDENT, ident(5)):
        commit(store, flow_cancels.OWE_MEMBER(before.partition_key, **owner, execution_id=str(member)))
    assert isinstance(commit(store, retention.trim(before)), Applied)
    assert (kept(store, Flow), kept(store, Edge), kept(store, EdgeGroup)) == ([flow()], [resolved], [group()])
    assert [row["execution_id"] for row in rows(store, "ff_cancel_backlog_member")] == [str(ident(5))]


@pytest.mark.parametrize(("expires", "forgotten"), [(NOW, True), (NOW - 1, True), (NOW + 1, False)])
def test_a_key_is_forgotten_once_its_window_is_over(expires: int, forgotten: bool) -> None:
    store = MemoryStore(ManualClock(NOW))
    key = {"namespace": "n", "idempotency_key": "k"}
    commit(store, TAKE_KEY(7, **key, partition_key=7, execution_id=IDENT.uuid, expires_at_ms=expires))
    assert isinstance(commit(store, retention.FORGET_KEY(7, **key, now=NOW)), Applied) is forgotten
