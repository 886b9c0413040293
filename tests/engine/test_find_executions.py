"""Searches over executions: what they answer, what they refuse, and how much they examine."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec import structs

from flowfabric.engine.engine import Engine
from flowfabric.engine.executions import search_filter
from flowfabric.engine.executions.execution_counts import CountExecutions
from flowfabric.engine.executions.search import Reach, Search
from flowfabric.errors import ValidationError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import SubmitFlowArgs
from flowfabric.model.flow_links import Parent
from flowfabric.model.search import (
    ExecutionFilter,
    ExecutionSummary,
)
from flowfabric.model.state import PublicState
from flowfabric.plan import Arg, Form, Update
from flowfabric.store.port import Find, Loaded, Read
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance.helpers import KEY

from .helpers import completed, create, running, worker

in_memory = pytest.mark.parametrize("engine", ["memory"], indirect=True)
_TAGS = Form("t_tags", Update("ff_exec_core", KEY, {"tags": Arg("tags")}))


async def found(engine: Engine, limit: int = 50, **where: Any) -> list[ExecutionId]:
    page = await engine.find_executions(ExecutionFilter(**where), limit)
    assert page.next_cursor is None
    return [each.id for each in page.items]


async def test_the_newest_come_first_unless_asked_otherwise(
    engine: Engine, clock: ManualClock
) -> None:
    made = []
    for _ in range(3):
        clock.advance(1)
        made.append(await create(engine))
    assert await found(engine) == made[::-1]
    page = await engine.find_executions(ExecutionFilter(), oldest_first=True)
    assert [each.id for each in page.items] == made


async def test_a_caller_sees_its_own_writes(engine: Engine) -> None:
    for _ in range(10):
        ident, handle = await running(engine)
        assert ident in await found(engine, state=(PublicState.ACTIVE,))
        await engine.fail(handle, "ValueError: no", FailureClass.PERMANENT)
        assert ident in await found(engine, state=(PublicState.FAILED,), error="ValueError")
        assert await found(engine, state=(PublicState.ACTIVE,)) == []


async def test_a_summary_says_what_a_listing_shows(engine: Engine, clock: ManualClock) -> None:
    ident = await create(
        engine,
        execution_kind="send",
        lane_id="mail",
        priority=3,
        tags={"app.x": "1"},
        idempotency_key="k",
        delay_until=clock() + 5_000,
    )
    (each,) = (await engine.find_executions(ExecutionFilter())).items
    assert (each.id, each.task, each.lane_id, each.priority) == (ident, "send", "mail", 3)
    assert (each.public_state, each.delayed_until) == ("delayed", clock() + 5_000)
    assert (each.tags, each.idempotency_key) == ({"app.x": "1"}, "k")
    assert (each.created_at, each.ended_at, each.namespace) == (clock(), None, "default")


async def test_a_page_ends_with_a_cursor_to_the_next(engine: Engine, clock: ManualClock) -> None:
    made = [await create(engine) for _ in range(5)]
    page = await engine.find_executions(ExecutionFilter(), 3)
    rest = await engine.find_executions(ExecutionFilter(), 3, page.next_cursor)
    assert (len(page.items), len(rest.items), rest.next_cursor) == (3, 2, None)
    assert {each.id for each in [*page.items, *rest.items]} == set(made)
    assert (await engine.find_executions(ExecutionFilter(), 0)).items == []


async def test_executions_created_between_two_pages_are_not_repeated(
    engine: Engine, clock: ManualClock
) -> None:
    first = [await create(engine) for _ in range(4)]
    page = await engine.find_executions(ExecutionFilter(), 2)
    clock.advance(1)
    await create(engine)
    rest = await engine.find_executions(ExecutionFilter(), 10, page.next_cursor)
    assert sorted(each.id for each in [*page.items, *rest.items]) == sorted(first)


async def test_an_execution_that_is_claimed_between_two_pages_is_found_once(
    engine: Engine, clock: ManualClock
) -> None:
    """It moves from one index to another, and keeps its place in the order."""
    made = [await create(engine) for _ in range(4)]
    page = await engine.find_executions(ExecutionFilter(), 1)
    seen = [each.id for each in page.items]
    while page.next_cursor:
        await engine.claim_many("default", (), worker(), 1)
        page = await engine.find_executions(ExecutionFilter(), 1, page.next_cursor)
        seen += [each.id for each in page.items]
    assert sorted(seen) == sorted(made)


TEXTS = [
    ("ValueError: bad input", ["ValueError", "bad", "bad input", "ValueError: b", "ValueError:"]),
    ("app.errors.Refused: no", ["app.errors.Refused", "no"]),
    ("ValueError", ["ValueError", "Value"]),
    ("the host: it is away", ["the", "the host", "the host: it"]),
    ("wörker.Ä: €", ["wörker.Ä", "€"]),
]
OTHERS = [
    ("ValueError: bad input", ["Value", "input", "alueError", "ValueErrors", "Bad", "ad"]),
    ("ValueError: a: b", ["b", "a:b"]),
    ("the host: it is away", ["it", "it is away", "host"]),
    ("app.errors.Refused: no", ["Refused", "app", "app.errors"]),
]


@pytest.mark.parametrize(
    ("text", "error", "holds"),
    [
        *((text, error, True) for text, errors in TEXTS for error in errors),
        *((text, error, False) for text, errors in OTHERS for error in errors),
    ],
)
def test_an_error_is_a_type_or_the_beginning_of_a_message(
    text: str, error: str, holds: bool
) -> None:
    for column in ("failure_reason", "last_failure_message"):
        assert search_filter.has_error(_summary(**{column: text}), error) is holds


def _summary(**values: Any) -> ExecutionSummary:
    fields: dict[str, Any] = dict.fromkeys(ExecutionSummary.__struct_fields__)
    return ExecutionSummary(
        **{**fields, "partition_key": 0, "execution_uuid": UUID(int=1), **values}
    )


@pytest.mark.parametrize(
    ("tags", "tag", "holds"),
    [
        ('{"a":"b"}', "a", True),
        ('{"a":"b"}', "a=b", True),
        ('{"a":"bc"}', "a=b", False),
        ('{"ab":"b"}', "a", False),
        ('{"x\\"a":"b"}', "a=b", False),
        ('{"k":"foo,",":":"v"}', ",=:", False),
        ('{"a":"b=c"}', "a=b=c", True),
        ('{"a":""}', "a=", True),
        ('{"a":"b"}', "a=", False),
        ("not json", "a", False),
    ],
)
def test_a_tag_is_a_key_or_a_pair(tags: str, tag: str, holds: bool) -> None:
    assert search_filter.has_tag(_summary(stored_tags=tags), tag) is holds


async def test_unreadable_tags_hide_one_execution_and_not_the_others(engine: Engine) -> None:
    bad = await create(engine, tags={"a": "1"})
    good = await create(engine, tags={"a": "1"})
    await engine.store.commit(_TAGS(**bad.owner, tags='[{"a":"1"}]'))
    assert await found(engine, tag="a=1") == [good]
    assert set(await found(engine)) == {bad, good}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"state": "failed"}, "state: one or more of waiting"),
    ({"state": ("done",)}, "state: one or more of waiting"),
    ({"state": (["x"],)}, "state: "),
    ({"task": ""}, "task: "),
    ({"task": 3}, "task: "),
    ({"lane": "ü"}, "lane: "),
    ({"namespace": "x" * 2_000}, "namespace: "),
    ({"worker": "a\0b"}, "worker: "),
    ({"tag": "=b"}, "tag: a key, or key=value"),
    ({"tag": ""}, "tag: "),
    ({"tag": "x" * 20_000}, "tag: "),
    ({"parent": "no id"}, "parent"),
    ({"flow": "no uuid"}, "flow"),
    ({"created_from": -1}, "created_from: "),
    ({"created_before": "today"}, "created_before: "),
    ({"ended_from": 2**60}, "ended_from: "),
    ({"ended_before": True}, "ended_before: "),
    ({"error": ""}, "error: the type of an exception"),
    ({"error": "\ud800"}, "error: "),
    ({"key": 5}, "key: "),
    ({"key": "k" * 600}, "key: "),
]


@in_memory
@pytest.mark.parametrize(("where", "text"), BAD, ids=[str(where)[:40] for where, _ in BAD])
async def test_a_bad_condition_names_its_field(
    engine: Engine, where: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        await engine.find_executions(ExecutionFilter(**where))
    assert text in str(caught.value)


@in_memory
@pytest.mark.parametrize(
    "cursor", ["", "x", "1", "1.", "-1." + "0" * 32, "1." + "g" * 32, "9" * 17 + "." + "0" * 32, 7]
)
async def test_a_cursor_of_another_kind_is_refused(engine: Engine, cursor: Any) -> None:
    with pytest.raises(ValidationError, match="cursor: the cursor of an earlier page"):
        await engine.find_executions(ExecutionFilter(), 10, cursor)


@in_memory
@pytest.mark.parametrize("limit", [-1, "5", None, True])
async def test_a_limit_out_of_range_is_refused(engine: Engine, limit: Any) -> None:
    with pytest.raises(ValidationError, match="limit"):
        await engine.find_executions(ExecutionFilter(), limit)


@in_memory
async def test_a_filter_of_another_type_is_refused(engine: Engine) -> None:
    with pytest.raises(ValidationError, match="where"):
        await engine.find_executions({"state": "failed"})  # type: ignore[arg-type]


async def test_children_of_a_parent_with_more_flows_than_are_read_one_by_one(
    engine: Engine,
) -> None:
    parent = await create(engine, lane_id="parents")
    await create(engine)
    flows = [uuid4() for _ in range(7)]
    children = [ExecutionId.for_flow(flow) for flow in flows]
    for number, (flow, child) in enumerate(zip(flows, children, strict=True)):
        await engine.submit_flow(
            SubmitFlowArgs(
                flow_id=flow,
                nodes=[CreateExecutionArgs(execution_id=child, lane_id="children")],
                parent=Parent(execution_id=parent, waitpoint_key=f"children:{number}"),
            )
        )
    for reach in (Reach(), Reach(flows=3)):
        search = Search(engine.parts.core, reach)
        page = await search.find_executions(ExecutionFilter(parent=parent))
        assert sorted(each.id for each in page.items) == sorted(children)
        both = ExecutionFilter(parent=parent, flow=flows[2])
        (child,) = (await search.find_executions(both)).items
        assert child.id == children[2]
    other = ExecutionFilter(parent=children[0], flow=flows[2])
    assert (await engine.find_executions(other)).items == []


@in_memory
async def test_a_page_examines_no_more_rows_than_its_steps(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(40):
        await create(engine)
    reads: list[Read] = []
    load = engine.store.load

    async def noted(given: Any) -> Loaded:
        reads.extend(given)
        return await load(given)

    monkeypatch.setattr(engine.store, "load", noted)
    search = Search(engine.parts.core, Reach(steps=(3, 8)))
    page = await search.find_executions(ExecutionFilter(task="another"))
    assert (page.items, page.next_cursor is None) == ([], False)
    walked = [read.examine for read in reads if isinstance(read, Find) and read.is_in_order]
    assert walked == [3, 8]
    pages = 1
    while page.next_cursor:
        where = ExecutionFilter(task="another")
        page = await search.find_executions(where, 50, page.next_cursor)
        pages += 1
    assert pages == 4


async def test_a_search_by_time_does_not_walk_past_its_bounds(
    engine: Engine, clock: ManualClock
) -> None:
    for _ in range(30):
        clock.advance(1_000)
        await create(engine)
    at = clock() - 15_000
    where = ExecutionFilter(created_from=at, created_before=at + 3_000)
    search = Search(engine.parts.core, Reach(steps=(5,)))
    for oldest_first in (False, True):
        page = await search.find_executions(where, oldest_first=oldest_first)
        assert (len(page.items), page.next_cursor) == (3, None)


async def test_counts_are_of_every_execution_by_namespace_lane_task_and_state(
    engine: Engine, clock: ManualClock
) -> None:
    await create(engine, lane_id="a", execution_kind="send")
    await create(engine, lane_id="a", execution_kind="send", namespace="other")
    await completed(engine, lane_id="b", execution_kind="fetch")
    await running(engine, lane_id="b", execution_kind="fetch")
    counted = await engine.count_executions()
    assert counted.counted_at == clock()
    assert [structs.astuple(each) for each in counted.counts] == [
        ("default", "a", "send", "waiting", 1),
        ("default", "b", "fetch", "active", 1),
        ("default", "b", "fetch", "completed", 1),
        ("other", "a", "send", "waiting", 1),
    ]
    own = (await engine.count_executions("other")).counts
    assert [structs.astuple(each) for each in own] == [("other", "a", "send", "waiting", 1)]


@in_memory
async def test_callers_share_a_count_for_two_seconds(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    loads = 0
    load = engine.store.load

    async def noted(given: Any) -> Loaded:
        nonlocal loads
        loads += 1
        return await load(given)

    monkeypatch.setattr(engine.store, "load", noted)
    counts = CountExecutions(engine.parts.core, lambda: now_s)

    async def total() -> int:
        return sum(each.count for each in (await counts.count_executions()).counts)

    await create(engine)
    loads = 0
    assert await asyncio.gather(total(), total(), total()) == [1, 1, 1]
    await create(engine)
    loads, now_s = 0, 100.9
    assert (await total(), loads) == (1, 0)
    now_s = 101.1
    assert await total() == 1
    for _ in range(5):  # the next count and the end of it
        await asyncio.sleep(0)
    assert (await total(), loads) == (2, 1)
    await create(engine)
    loads, now_s = 0, 104.0
    assert (await total(), loads) == (3, 1)


@in_memory
async def test_a_slow_count_is_repeated_less_often(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    loads = 0
    load = engine.store.load

    async def slow(given: Any) -> Loaded:
        nonlocal now_s, loads
        now_s += 2.0
        loads += 1
        return await load(given)

    monkeypatch.setattr(engine.store, "load", slow)
    counts = CountExecutions(engine.parts.core, lambda: now_s)
    await counts.count_executions()
    now_s = 105.9
    await counts.count_executions()
    await asyncio.sleep(0)
    assert loads == 1
    now_s = 107.1
    await counts.count_executions()
    assert loads == 2
