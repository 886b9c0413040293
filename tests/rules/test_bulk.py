"""Jobs of bulk actions: what applies to what, and how a job moves."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from flowfabric.ids import ExecutionId
from flowfabric.model.bulk import (
    MAX_ERRORS,
    BulkAction,
    BulkArgs,
    BulkJob,
    BulkState,
    JobRow,
    Why,
)
from flowfabric.model.search import ExecutionFilter
from flowfabric.model.state import PublicState
from flowfabric.plan import Applied, Plan, Refused
from flowfabric.rules.bulk import jobs, matching
from flowfabric.rules.workers import retention
from flowfabric.store.memory import MemoryStore
from flowfabric.store.port import Get
from flowfabric.testing.clock import ManualClock

from .factory import NOW, attempt, commit, events, execution, load, run, seeded, told
from .flow_factory import flow

JOB_ID = UUID(int=0x10B)
ENDED = {"completed", "failed", "cancelled", "expired", "skipped"}
PARKED = {"waiting", "delayed", "rate_limited", "waiting_children", "suspended"}


def args(action: str = "cancel", **said: Any) -> BulkArgs:
    where = ExecutionFilter(state=said.pop("state", ()), namespace=said.pop("namespace", None))
    return BulkArgs(action=BulkAction(action), where=where, **said)


@pytest.mark.parametrize(
    ("action", "states"),
    [
        ("cancel", PARKED | {"active"}),
        ("retry", {"failed", "expired"}),
        ("replay", ENDED),
        ("delete", ENDED),
        ("priority", {"waiting"}),
        ("move", PARKED),
        ("release", {"delayed", "waiting"}),
    ],
)
def test_an_action_applies_to_some_states(action: str, states: set[str]) -> None:
    assert set(matching.states_of(args(action))) == states


def test_a_filter_keeps_the_states_that_the_action_applies_to() -> None:
    wanted = args(state=(PublicState.WAITING, PublicState.FAILED))
    assert matching.states_of(wanted) == (PublicState.WAITING,)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (args(state=(PublicState.FAILED,)), "where.state"),
        (args("priority"), "priority"),
        (args("move"), "lane"),
        (args("cancel", priority=1), "priority"),
        (args("priority", priority=1, lane="x"), "lane"),
    ],
)
def test_what_does_not_go_with_the_action_is_refused(wanted: BulkArgs, text: str) -> None:
    refused = matching.check(wanted)
    assert refused is not None
    assert str(refused).startswith(f"invalid_input: {text}:")


@pytest.mark.parametrize(
    "wanted", [args(), args("priority", priority=0), args("move", lane="x"), args("retry")]
)
def test_what_goes_with_the_action_is_accepted(wanted: BulkArgs) -> None:
    assert matching.check(wanted) is None


def stored_job(store: MemoryStore) -> JobRow:
    columns = JobRow.__struct_fields__
    ((row,),) = run(store.load((Get(jobs.JOB, (JOB_ID,), columns),))).rows
    return JobRow(*row)


def a_store(wanted: BulkArgs | None = None) -> tuple[MemoryStore, ManualClock]:
    clock = ManualClock(NOW)
    store = seeded(clock=clock)
    assert isinstance(commit(store, jobs.create_job(JOB_ID, wanted or args())), Applied)
    return store, clock


def test_a_new_job_has_done_nothing() -> None:
    wanted = args("move", lane="x", namespace="ann", requested_by="ada", reason="why")
    store, _ = a_store(wanted)
    row = stored_job(store)
    assert (row.namespace, row.action, jobs.args_of(row)) == ("ann", "move", wanted)
    assert jobs.shown(row) == BulkJob(
        JOB_ID, wanted, BulkState.RUNNING, 0, 0, 0, 0, (), NOW, NOW, None
    )


def test_a_page_moves_the_cursor_and_the_counts() -> None:
    store, clock = a_store()
    row = stored_job(store)
    late = ExecutionId.of(3, UUID(int=5))
    after = jobs.advanced(row, "c-1", jobs.Counted(3, 1, ("boom",), (late,)))
    clock.advance(7)
    assert isinstance(commit(store, jobs.advance(row, after)), Applied)
    found = stored_job(store)
    assert (found.cursor, found.version, found.updated_at_ms) == ("c-1", 1, NOW + 7)
    assert jobs.follow_ups_of(found) == [late]
    shown = jobs.shown(found)
    assert (shown.matched, shown.changed, shown.skipped, shown.refused) == (5, 3, 1, 1)
    assert (shown.errors, shown.state) == (("boom",), BulkState.RUNNING)
    assert commit(store, jobs.advance(row, after)) == Refused()


def test_the_last_page_ends_the_job() -> None:
    store, clock = a_store()
    row = stored_job(store)
    clock.advance(7)
    plan = jobs.advance(row, jobs.advanced(row, None, jobs.Counted(would_change=4)))
    assert isinstance(commit(store, plan), Applied)
    shown = jobs.shown(stored_job(store))
    assert (shown.state, shown.matched, shown.changed) == (BulkState.COMPLETED, 4, 0)
    assert shown.ended_at == NOW + 7
    assert commit(store, jobs.stop(JOB_ID)) == Refused()


def test_a_job_keeps_the_first_errors_and_counts_all() -> None:
    row = stored_job(a_store()[0])
    for _ in range(3):
        row = jobs.advanced(row, "c", jobs.Counted(errors=("x" * 1_000,) * 6))
    shown = jobs.shown(row)
    assert (shown.refused, len(shown.errors)) == (18, MAX_ERRORS)
    assert {len(text) for text in shown.errors} == {jobs.MAX_ERROR_CHARS}


def test_a_stopped_job_takes_no_page() -> None:
    store, _ = a_store()
    row = stored_job(store)
    assert isinstance(commit(store, jobs.stop(JOB_ID)), Applied)
    page = jobs.advance(row, jobs.advanced(row, "c", jobs.Counted(1)))
    assert commit(store, page) == Refused()
    assert jobs.shown(stored_job(store)).state is BulkState.STOPPED


def test_only_an_ended_job_is_forgotten() -> None:
    store, _ = a_store()
    (plan,) = jobs.forget([JOB_ID])
    assert commit(store, plan) == Refused()
    commit(store, jobs.stop(JOB_ID))
    assert isinstance(commit(store, plan), Applied)


# ---- deletes


def _delete(why: Why) -> Plan:
    return retention.delete(execution("ENDED"), why, NOW)


@pytest.mark.parametrize(("job", "owner"), [(None, None), (JOB_ID, JOB_ID)])
def test_the_event_of_a_delete_outlives_the_execution(job: UUID | None, owner: UUID | None) -> None:
    before = execution("ENDED")
    store = seeded(before, attempt(before))
    assert isinstance(commit(store, _delete(Why("ada", "", job))), Applied)
    assert load(store).execution is None
    assert told(store) == ([], [], ["deleted"])
    (event,) = events(store, "ff_operator_event")
    assert event["execution_id"] == (owner or before.execution_id)
    assert event["namespace"] == before.namespace


def test_a_flow_is_deleted_as_it_was_read() -> None:
    store = seeded(flow())
    assert isinstance(commit(store, retention.delete_flow(flow())), Applied)
    changed = seeded(structs.replace(flow(), version=99))
    assert commit(changed, retention.delete_flow(flow())) == Refused()
