"""The history of an execution and of a flow, in pages, without secrets."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.engine.executions import history
from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId, lease_mark
from flowfabric.model.attempt import FailureClass
from flowfabric.model.budget import CreateBudgetArgs
from flowfabric.model.execution import CancelExecutionArgs, ChangePriorityArgs, ReplayExecutionArgs
from flowfabric.model.flow import CancelFlowArgs
from flowfabric.model.history import MAX_HISTORY, HistoryEntry
from flowfabric.model.lease import RevokeLeaseArgs
from flowfabric.testing import ManualClock

from .budget_helpers import spend
from .flow_helpers import add, finish, hold, submit
from .helpers import GRACE_MS, TTL_MS, claim, create, fields, invalid, new_id, running, worker
from .suspend_helpers import claim_resumed, park_held, seed, signal


async def whole(
    engine: Engine, subject: Any, limit: int = MAX_HISTORY, after: str | None = None
) -> list[HistoryEntry]:
    found: list[HistoryEntry] = []
    while True:
        page = await engine.history(subject, limit, after)
        assert len(page.items) <= limit
        found += page.items
        after = page.next_cursor
        if after is None:
            return found


def words(entries: list[HistoryEntry]) -> list[str]:
    return [entry.what.value for entry in entries]


async def long_life(engine: Engine, clock: ManualClock) -> ExecutionId:
    """Something of everything, a millisecond apart."""
    await seed(engine)
    budget = uuid4()
    await engine.create_budget(CreateBudgetArgs(budget_id=budget))
    ident = await create(engine, creator_identity="alice", priority=3)
    clock.advance(1)
    await engine.change_priority(ChangePriorityArgs(execution_id=ident, new_priority=7))
    clock.advance(1)
    held = await claim(engine)
    for _ in range(3):
        clock.advance(1)
        await engine.renew(held)
    clock.advance(1)
    await engine.progress(held, 40, "nearly half")
    clock.advance(1)
    await spend(engine, budget, ident, tokens=120)
    clock.advance(1)
    parked = await park_held(engine, ident, held)
    clock.advance(1)
    await signal(engine, parked)
    clock.advance(1)
    handle = (await claim_resumed(engine, ident)).handle
    clock.advance(1)
    await engine.delay(handle, clock() + 5)
    clock.advance(5)
    await engine.promote_delayed(ident)
    held = await claim(engine, worker(3))
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(ident)
    clock.advance(GRACE_MS)
    assert await engine.requeue_lost(ident) == "requeued"
    held = await claim(engine, worker(4))
    clock.advance(1)
    await engine.revoke_lease(RevokeLeaseArgs(execution_id=ident, reason="too slow"))
    clock.advance(1)
    held = await claim(engine, worker(5))
    clock.advance(1)
    await engine.fail(held, "flaky network")
    clock.advance(60_000)
    await engine.promote_delayed(ident)
    held = await claim(engine, worker(6))
    clock.advance(1)
    await engine.fail(held, "broken for good", FailureClass.PERMANENT)
    clock.advance(1)
    await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    clock.advance(1)
    await engine.cancel_execution(CancelExecutionArgs(execution_id=ident, reason="enough"))
    return ident


STORY = [
    "created",
    "priority_changed",
    "claimed",
    "renewed",
    "progressed",
    "spent",
    "suspended",
    "signalled",
    "resumed",
    "claimed",
    "delayed",
    "claimed",
    "lease_expired",
    "claimed",
    "revoked",
    "claimed",
    "retried",
    "claimed",
    "ended",
    "replayed",
    "ended",
]


async def test_the_entries_of_a_long_execution(engine: Engine, clock: ManualClock) -> None:
    ident = await long_life(engine, clock)
    found = await whole(engine, ident)
    assert words(found) == STORY
    assert {e.execution_id for e in found} == {ident}
    times = [e.at_ms for e in found]
    assert times == sorted(times)
    told = {at: entry.details for at, entry in enumerate(found)}
    assert (told[0]["by"], told[0]["lane"], told[0]["priority"]) == ("alice", "default", 7)
    assert told[1] == {"old_priority": 3, "new_priority": 7}
    assert (told[2]["worker"], told[2]["epoch"]) == ("w1-i1", 1)
    assert told[3]["count"] == 3 and told[3]["last_ms"] == found[3].at_ms + 2
    assert told[4] == {"percent": 40, "message": "nearly half"}
    assert (told[5]["dimension"], told[5]["amount"]) == ("tokens", 120)
    assert told[6]["waitpoints"] == "wp"
    assert told[7] == {"effect": "resume_condition_satisfied", "source": "tester", "signal": "go"}
    assert told[16]["reason"] == "flaky network"
    assert told[18] == {"outcome": "failed"}, "a replay forgets why it had ended"
    assert (told[20]["outcome"], told[20]["reason"]) == ("cancelled", "enough")
    assert [e.attempt_index for e in found if e.what in ("claimed", "retried")] == [
        0,
        0,
        0,
        0,
        0,
        0,
        1,
    ]


@pytest.mark.parametrize("limit", [1, 2, 5, 20])
async def test_every_page_size_gives_the_same_entries(
    engine: Engine, clock: ManualClock, limit: int
) -> None:
    ident = await long_life(engine, clock)
    assert await whole(engine, ident, limit) == await whole(engine, ident)


async def test_a_cursor_continues_after_new_entries(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    page = await engine.history(ident, 1)
    assert words(page.items) == ["created"]
    clock.advance(1)
    await engine.renew(handle)
    page = await engine.history(ident, 1, page.next_cursor)
    assert words(page.items) == ["claimed"]
    await engine.renew(handle)
    await engine.complete(handle)
    rest = await engine.history(ident, 10, page.next_cursor)
    assert words(rest.items) == ["renewed", "ended"] and rest.items[0].details["count"] == 2
    assert rest.next_cursor is None


async def test_many_renewals_are_one_entry_and_are_read_a_page_at_a_time(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "AT_ONCE", 10)
    ident, handle = await running(engine)
    for _ in range(35):
        clock.advance(1)
        await engine.renew(handle)
    load, most = engine.store.load, 0

    async def counted(reads: Any) -> Any:
        nonlocal most
        loaded = await load(reads)
        most = max(most, *(len(rows) for rows in loaded.rows))
        return loaded

    monkeypatch.setattr(engine.store, "load", counted)
    found = await whole(engine, ident)
    assert words(found) == ["created", "claimed", "renewed"]
    assert (found[2].details["count"], found[2].details["last_ms"]) == (35, clock())
    assert most == 10


async def test_a_page_stops_reading_at_its_end(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "AT_ONCE", 5)
    ident = await create(engine)
    for priority in range(1, 30):
        clock.advance(1)
        await engine.change_priority(ChangePriorityArgs(execution_id=ident, new_priority=priority))
    load, scans = engine.store.load, 0

    async def counted(reads: Any) -> Any:
        nonlocal scans
        scans += 1
        return await load(reads)

    monkeypatch.setattr(engine.store, "load", counted)
    page = await engine.history(ident, 3)
    assert words(page.items) == ["created", "priority_changed", "priority_changed"]
    assert scans == 1 + 4, "the execution, and one page of each outbox"
    scans = 0
    page = await engine.history(ident, 3, page.next_cursor)
    assert [e.details["new_priority"] for e in page.items] == [3, 4, 5]
    assert scans == 1 + 4


# ---- flows


async def test_the_history_of_a_flow_includes_its_members(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b c")
    clock.advance(1)
    await finish(engine, graph, "a")
    clock.advance(1)
    await finish(engine, graph, "b")
    clock.advance(1)
    held = await hold(engine, graph, "c")
    clock.advance(1)
    await engine.cancel_flow_header(
        CancelFlowArgs(flow_id=graph.flow, reason="enough", cancellation_policy="cancel_all")
    )
    found = await whole(engine, graph.flow)
    assert held
    assert words(found)[:4] == ["flow_created", "created", "created", "created"]
    names = {graph[name]: name for name in "abc"}
    told = [
        (e.what.value, names.get(e.execution_id) if e.execution_id else None) for e in found[4:]
    ]
    assert told == [
        ("claimed", "a"),
        ("ended", "a"),
        ("claimed", "b"),
        ("ended", "b"),
        ("claimed", "c"),
        ("flow_cancel_requested", None),
        ("ended", "c"),
        ("flow_ended", None),
    ]
    asked = found[-3].details
    assert (asked["reason"], asked["member_count"]) == ("enough", 1)
    assert found[-1].details == {"outcome": "cancelled"}
    for limit in (1, 3, 7):
        assert await whole(engine, str(graph.flow), limit) == found


async def test_the_history_of_a_member_is_readable_alone(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a>b")
    clock.advance(1)
    await finish(engine, graph, "a", "failed")
    assert words(await whole(engine, graph["a"])) == ["created", "claimed", "ended"]
    assert [(e.what, e.details["outcome"]) for e in (await whole(engine, graph["b"]))[1:]] == [
        ("ended", "skipped")
    ]


async def test_a_large_flow_is_read_in_bounded_pieces(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MEMBERS_LISTED", 8)
    monkeypatch.setattr(history, "MEMBERS_AT_ONCE", 3)
    monkeypatch.setattr(history, "FIRST_READ", (2, 2, 2, 2))
    monkeypatch.setattr(history, "AT_ONCE", 4)
    graph = await submit(engine, " ".join(f"n{at}" for at in range(20)))
    for at in range(20):
        clock.advance(1)
        handle = await hold(engine, graph, f"n{at}")
        await engine.renew(handle)
        await engine.renew(handle)
        await engine.complete(handle)
    load, most = engine.store.load, 0

    async def counted(reads: Any) -> Any:
        nonlocal most
        loaded = await load(reads)
        most = max(most, *(len(rows) for rows in loaded.rows))
        return loaded

    monkeypatch.setattr(engine.store, "load", counted)
    found = await whole(engine, graph.flow, 9)
    assert len(found) == 1 + 20 * 4
    assert [e.at_ms for e in found] == sorted(e.at_ms for e in found)
    assert all(e.details["count"] == 2 for e in found if e.what == "renewed")
    assert most <= 9, "a page of members, of an outbox, or of the page's signals"
    assert found == await whole(engine, graph.flow)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_entries_before_the_first_claim_are_in_their_place(
    engine: Engine, clock: ManualClock, limit: int
) -> None:
    graph = await submit(engine, "a>b c d e")
    clock.advance(1)
    await engine.change_priority(ChangePriorityArgs(execution_id=graph["c"], new_priority=9))
    clock.advance(1)
    await finish(engine, graph, "a", "failed")
    clock.advance(1)
    await finish(engine, graph, "d")
    clock.advance(1)
    await engine.replay_execution(ReplayExecutionArgs(execution_id=graph["a"]))
    clock.advance(1)
    await finish(engine, graph, "a")
    clock.advance(1)
    await engine.replay_execution(ReplayExecutionArgs(execution_id=graph["b"]))
    clock.advance(1)
    await engine.cancel_execution(CancelExecutionArgs(execution_id=graph["e"], reason="enough"))
    clock.advance(1)
    await finish(engine, graph, "c")
    for _ in range(2):  # the second time the members are not listed again for settled pages
        found = await whole(engine, graph.flow, limit)
        clock.advance(60_000)
        names = {graph[name]: name for name in "abcde"}
        told = [(e.what.value, names[e.execution_id]) for e in found if e.execution_id is not None]
        told[7:9] = sorted(told[7:9])  # within a millisecond
        assert told[5:] == [
            ("priority_changed", "c"),
            ("claimed", "a"),
            ("ended", "a"),
            ("ended", "b"),
            ("claimed", "d"),
            ("ended", "d"),
            ("replayed", "a"),
            ("claimed", "a"),
            ("ended", "a"),
            ("replayed", "b"),
            ("ended", "e"),
            ("claimed", "c"),
            ("ended", "c"),
        ]


async def test_a_page_of_a_live_flow_shows_what_happened_since_the_page_before(
    engine: Engine, clock: ManualClock
) -> None:
    graph = await submit(engine, "a b c")
    clock.advance(1)
    await finish(engine, graph, "a")
    first = await engine.history(graph.flow, 5)
    clock.advance(60_000)
    await finish(engine, graph, "b")
    await create(engine, execution_id=graph.mint("late"), lane_id="late")
    clock.advance(60_000)
    await add(engine, graph, "late")
    rest = await whole(engine, graph.flow, 2, first.next_cursor)
    again = await whole(engine, graph.flow, 2)
    assert [*first.items, *rest] == again
    assert words(again).count("created") == 4 and words(again).count("ended") == 2


async def test_listings_of_many_flows_are_forgotten(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MAX_LISTINGS", 2)
    graphs = [await submit(engine, "a b") for _ in range(4)]
    for _ in range(2):
        for graph in graphs:
            assert words(await whole(engine, graph.flow, 1))[-1] == "created"


# ---- refusals and secrets


async def test_an_unknown_subject_is_not_found(engine: Engine) -> None:
    for subject in (new_id(), uuid4(), str(uuid4()), str(new_id())):
        with pytest.raises(NotFound):
            await engine.history(subject)


async def test_bad_arguments_are_named(engine: Engine, clock: ManualClock) -> None:
    ident = await long_life(engine, clock)
    other, _ = await running(engine)
    cursor = (await engine.history(ident, 2)).next_cursor
    for bad in ("", "nonsense", "e30", cursor[:-3], 5, b"x", cursor + "é"):
        await invalid(
            engine.history(ident, 2, bad),
            "after: the next_cursor of an earlier page of this history",
        )
    await invalid(engine.history(other, 2, cursor), "after: ")
    await invalid(engine.history("nonsense"), "subject: a UUID")
    await invalid(engine.history("{fp:x}:y"), "execution_id")
    await invalid(engine.history(5), "subject: a UUID")  # type: ignore[arg-type]
    await invalid(engine.history(ident, -1), "limit")


async def test_an_empty_page_is_empty(engine: Engine) -> None:
    ident = await create(engine)
    assert (await engine.history(ident, 0)).items == []


async def test_the_history_shows_no_secret(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine, input_payload=b"hush-payload")
    parked = await park_held(engine, ident, held)
    await signal(engine, parked, payload=b"hush-signal")
    said = repr(await whole(engine, ident))
    lease = fields(held).lease_id
    assert str(lease) not in said and str(lease_mark(lease)) in said
    assert parked.waitpoint.waitpoint_token not in said and "hush" not in said


async def test_a_resume_names_its_cause(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    await park_held(engine, ident, held)
    clock.advance(1)
    await engine.resume_execution(ident)
    clock.advance(1)
    held = (await claim_resumed(engine, ident)).handle
    clock.advance(1)
    behaviour = "auto_resume_with_timeout_signal"
    await park_held(engine, ident, held, timeout_at=clock() + 5, timeout_behavior=behaviour)
    clock.advance(5)
    await engine.expire_suspension(ident)
    found = await whole(engine, ident)
    assert words(found) == [
        "created",
        "claimed",
        "suspended",
        "resumed",
        "claimed",
        "suspended",
        "resumed",
    ]
    assert [e.details for e in found if e.what == "resumed"] == [
        {"by": "operator"},
        {"by": "timeout"},
    ]
    assert [e.details.get("until_ms") for e in found if e.what == "suspended"] == [None, clock()]
