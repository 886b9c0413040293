"""Reading a stream: ranges, bounds, visibility, and the errors for missing streams."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import NotFound, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import ReplayExecutionArgs
from flowfabric.model.stream import (
    MAX_TAIL_BLOCK_MS,
    STREAM_READ_HARD_CAP,
    StreamFrames,
    Visibility,
)
from flowfabric.testing import ManualClock

from .helpers import claim, create, fields, invalid, new_id, running, worker
from .stream_helpers import KEPT, frame, frames, live, patch, say, texts

Range = tuple[str, str]


async def written(engine: Engine, clock: ManualClock) -> tuple[ExecutionId, int]:
    """Three milliseconds with two frames each, starting at the given time."""
    ident, handle = await running(engine)
    first = clock()
    for at in range(3):
        await engine.append_frames(handle, [frame(f"{at}.0"), frame(f"{at}.1")])
        clock.advance(1)
    return ident, first


@pytest.mark.parametrize(
    ("from_", "to", "found"),
    [
        ("start", "end", "0.0 0.1 1.0 1.1 2.0 2.1"),
        ("{1}-0", "end", "1.0 1.1 2.0 2.1"),
        ("{1}-1", "end", "1.1 2.0 2.1"),
        ("{1}-2", "end", "2.0 2.1"),
        ("{1}", "end", "1.0 1.1 2.0 2.1"),
        ("start", "{1}", "0.0 0.1 1.0 1.1"),
        ("start", "{1}-0", "0.0 0.1 1.0"),
        ("start", "{1}-99", "0.0 0.1 1.0 1.1"),
        ("{1}", "{1}", "1.0 1.1"),
        ("{1}-1", "{1}-1", "1.1"),
        ("{1}-1", "{1}", "1.1"),
        ("0", "0", ""),
        ("start", "start", ""),
        ("end", "end", ""),
        ("{3}", "end", ""),
        ("00{1}-01", "{1}-0001", "1.1"),
        ("start", "9223372036854775807-9223372036854775807", "0.0 0.1 1.0 1.1 2.0 2.1"),
    ],
)
async def test_both_ends_of_a_range_belong_to_it(
    engine: Engine, clock: ManualClock, from_: str, to: str, found: str
) -> None:
    ident, first = await written(engine, clock)
    times = [first + at for at in range(4)]
    assert (
        " ".join(await texts(engine, ident, from_=from_.format(*times), to=to.format(*times)))
        == found
    )


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("0-0", "0.0 0.1 1.0 1.1 2.0 2.1"),
        ("0", "0.0 0.1 1.0 1.1 2.0 2.1"),
        ("{1}-0", "1.1 2.0 2.1"),
        ("{1}", "1.1 2.0 2.1"),
        ("{1}-1", "2.0 2.1"),
        ("{2}-1", ""),
        ("9223372036854775807", ""),
    ],
)
async def test_a_tail_begins_behind_its_cursor(
    engine: Engine, clock: ManualClock, after: str, found: str
) -> None:
    ident, first = await written(engine, clock)
    page = await engine.tail_stream(ident, 0, after.format(*(first + at for at in range(4))))
    assert " ".join(each.payload.decode() for each in page.frames) == found and not page.closed
    assert page.next_after == (page.frames[-1].id if found else None)


async def test_pages_join_without_a_gap(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await written(engine, clock)
    found, after = [], "0-0"
    while page := (await engine.tail_stream(ident, 0, after, count_limit=4)).frames:
        assert len(page) <= 4
        found += [each.payload.decode() for each in page]
        after = page[-1].id
    assert found == await texts(engine, ident)
    assert [each.payload.decode() for each in await frames(engine, ident, count_limit=2)] == [
        "0.0",
        "0.1",
    ]


async def test_a_count_is_between_one_and_the_hard_cap(engine: Engine) -> None:
    ident, _ = await running(engine)
    for call in (engine.read_stream, engine.tail_stream):
        page: StreamFrames = await call(ident, 0, count_limit=STREAM_READ_HARD_CAP)
        assert page.frames == ()
        for bad, text in (
            (0, "count_limit must be >= 1"),
            (-1, ">= 1"),
            (True, ">= 1"),
            ("5", ">= 1"),
            (None, ">= 1"),
        ):
            assert (
                await invalid(call(ident, 0, count_limit=bad), text)
            ).kind is ValidationKind.INVALID_INPUT  # type: ignore[arg-type]
        await invalid(
            call(ident, 0, count_limit=STREAM_READ_HARD_CAP + 1), "count_limit_exceeds_hard_cap"
        )


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "-",
        "+",
        "x",
        "1-",
        "-1",
        "1-2-3",
        " 1",
        "1.5",
        "\u0661",
        "9" * 65,
        "18446744073709551616",
        None,
        5,
    ],
)
async def test_a_cursor_that_is_none(engine: Engine, bad: Any) -> None:
    ident, _ = await running(engine)
    for given in ({"from_": bad}, {"to": bad}):
        assert (
            await invalid(engine.read_stream(ident, 0, **given))
        ).kind is ValidationKind.INVALID_INPUT
    for after in (bad, "start", "end"):
        await invalid(
            engine.tail_stream(ident, 0, after), "tail_stream requires concrete after cursor"
        )
        with pytest.raises(ValidationError):
            await anext(engine.follow_stream(ident, 0, after))


async def test_a_range_that_runs_backwards_is_refused(engine: Engine) -> None:
    ident, _ = await running(engine)
    for from_, to in (("2", "1"), ("2-1", "2-0"), ("end", "5"), ("1", "start")):
        await invalid(engine.read_stream(ident, 0, from_, to), "from: at or before to")


async def test_a_cursor_is_only_a_place(engine: Engine, clock: ManualClock) -> None:
    """A cursor of another stream names the same time in this one: it is accepted."""
    one, _ = await written(engine, clock)
    other, handle = await running(engine)
    clock.advance(10)
    await say(engine, handle, "later")
    cursor = (await frames(engine, one))[-1].id
    assert [f.payload for f in (await engine.tail_stream(other, 0, cursor)).frames] == [b"later"]
    assert (await engine.tail_stream(one, 0, (await frames(engine, other))[-1].id)).frames == ()


async def test_other_arguments(engine: Engine) -> None:
    ident, _ = await running(engine)
    bad: Any
    for bad in (-1, 2**31, "0", None, True, 1.0):
        await invalid(engine.read_stream(ident, bad), "attempt_index")
        await invalid(engine.tail_stream(ident, bad), "attempt_index")
        await invalid(engine.read_summary(ident, bad), "attempt_index")
    for bad in (-1, MAX_TAIL_BLOCK_MS + 1, "1", None):
        await invalid(engine.tail_stream(ident, 0, block_ms=bad), "block_ms")
    for bad in ("all", None, 1):
        await invalid(engine.read_stream(ident, 0, visibility=bad), "visibility")
        await invalid(engine.tail_stream(ident, 0, visibility=bad), "visibility")
    for bad in (str(ident), None, ident.uuid):
        await invalid(engine.read_stream(bad, 0), "execution")
        await invalid(engine.tail_stream(bad, 0), "execution")
        await invalid(engine.read_summary(bad, 0), "execution")


# ---- who sees what


async def test_live_frames_can_be_left_out(engine: Engine) -> None:
    ident, handle = await running(engine)
    for n in range(5):
        await engine.append_frames(handle, [live(f"l{n}"), frame(f"d{n}"), patch(f'{{"s":{n}}}')])
    everything = await texts(engine, ident)
    kept = [text for text in everything if not text.startswith("l")]
    assert len(everything) == 15 and await texts(engine, ident, visibility=KEPT) == kept
    assert await texts(engine, ident, visibility=Visibility.All) == everything
    assert [
        f.payload.decode() for f in (await engine.tail_stream(ident, 0, visibility=KEPT)).frames
    ] == kept
    assert await texts(engine, ident, visibility=KEPT, count_limit=3) == kept[:3], (
        "the count is of what is shown"
    )
    found: list[str] = []
    after = "0-0"
    while page := (
        await engine.tail_stream(ident, 0, after, count_limit=2, visibility=KEPT)
    ).frames:
        found += [each.payload.decode() for each in page]
        after = page[-1].id
    assert found == kept


# ---- what is not there


async def test_a_stream_that_is_not_there_is_empty_and_open(engine: Engine) -> None:
    ident = await create(engine)
    nothing = StreamFrames(())
    assert await engine.read_stream(new_id(), 0) == nothing
    assert await engine.read_stream(ident, 0) == nothing
    handle = await claim(engine)
    assert fields(handle).execution_id == ident
    for attempt in (0, 1, 99):
        assert await engine.read_stream(ident, attempt) == nothing
        assert await engine.read_summary(ident, attempt) is None
    assert await engine.tail_stream(ident, 0) == nothing
    assert await engine.read_summary(new_id(), 0) is None


@pytest.mark.parametrize("block_ms", [0, 50])
async def test_a_tail_of_what_does_not_come_ends_with_its_time(
    engine: Engine, block_ms: int
) -> None:
    ident = await create(engine)
    for who, attempt, what in (
        (new_id(), 0, "execution"),
        (ident, 0, "attempt"),
        (ident, 3, "attempt"),
    ):
        with pytest.raises(NotFound) as caught:
            await engine.tail_stream(who, attempt, block_ms=block_ms)
        assert caught.value.entity == what


async def test_following_a_missing_stream_is_refused_at_once(engine: Engine) -> None:
    with pytest.raises(NotFound) as caught:
        await anext(engine.follow_stream(new_id()))
    assert caught.value.entity == "execution"


async def test_attempts_have_streams_of_their_own(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await say(engine, handle, "a")
    await engine.fail(handle, "once more")
    clock.advance(60_000)
    await engine.promote_delayed(ident)
    again = await claim(engine, worker(2))
    assert fields(again).attempt_index == 1
    outcome = (await say(engine, again, "b"))[0]
    assert (outcome.stream_id, outcome.frame_count) == (f"{ident}:1", 1)
    assert (await texts(engine, ident, 0), await texts(engine, ident, 1)) == (["a"], ["b"])
    assert (await engine.read_stream(ident, 0)).closed_reason == "attempt_failure"
    assert not (await engine.read_stream(ident, 1)).closed


async def test_a_replay_opens_a_stream_again_or_begins_one(engine: Engine) -> None:
    ident, handle = await running(engine)
    await say(engine, handle, "a")
    await engine.complete(handle)
    assert (await engine.read_stream(ident, 0)).closed_reason == "attempt_success"
    await engine.replay_execution(ReplayExecutionArgs(execution_id=ident))
    again = await claim(engine, worker(2))
    index = fields(again).attempt_index
    await say(engine, again, "b")
    page = await engine.read_stream(ident, index)
    assert not page.closed and page.frames[-1].payload == b"b"
