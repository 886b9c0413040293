from __future__ import annotations

import pytest

from flowfabric.plan import Applied, Refused
from flowfabric.rules import attempts, retention
from flowfabric.rules.decision import Act
from flowfabric.rules.executions import TAKE_KEY
from flowfabric.rules.states import VECTORS
from flowfabric.store.memory import MemoryStore
from flowfabric.testing import ManualClock

from .factory import IDENT, NOW, applied, attempt, commit, execution, grant, handle, load, run, seeded, stored, told


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


@pytest.mark.parametrize(("expires", "forgotten"), [(NOW, True), (NOW - 1, True), (NOW + 1, False)])
def test_a_key_is_forgotten_once_its_window_is_over(expires: int, forgotten: bool) -> None:
    store = MemoryStore(ManualClock(NOW))
    key = {"namespace": "n", "idempotency_key": "k"}
    commit(store, TAKE_KEY(7, **key, partition_key=7, execution_id=IDENT.uuid, expires_at_ms=expires))
    assert isinstance(commit(store, retention.FORGET_KEY(7, **key, now=NOW)), Applied) is forgotten
