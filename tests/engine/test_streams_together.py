"""Concurrent appends: combined in order, each with its own outcome, a numbered frame once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.connect import memory_engine
from flowfabric.engine.engine import Engine
from flowfabric.engine.streams import stream_writer
from flowfabric.errors import (
    EngineError,
    ResourceExhausted,
    ValidationError,
)
from flowfabric.model.stream import AppendOutcome, Frame
from flowfabric.plan import Answer, Plan
from flowfabric.testing import ManualClock

from .helpers import claim, create, running
from .stream_helpers import answers, begun, frame, frames, ids, meta, patch, rising, say, texts


class Commits:
    """The plans sent to the store; it can hold them back."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[Plan] = []
        self.going, self.reached = asyncio.Event(), asyncio.Event()
        self.going.set()
        self._commit, self._commit_many = engine.store.commit, engine.store.commit_many
        monkeypatch.setattr(engine.store, "commit", self.commit)
        monkeypatch.setattr(engine.store, "commit_many", self.commit_many)

    async def commit(self, plan: Plan) -> Answer:
        return (await self._held([plan])) or await self._commit(plan)

    async def commit_many(self, plans: Any) -> list[Answer]:
        return (await self._held(plans)) or await self._commit_many(plans)

    async def _held(self, plans: Any) -> Any:
        self.sent += plans
        self.reached.set()
        await self.going.wait()

    def sizes(self) -> list[int]:
        return [len(plan.values[plan.form.args.index("frames")]) for plan in self.sent]


# ---- combined


async def test_appends_during_a_commit_share_the_next(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, handle = await begun(engine)
    commits = Commits(engine, monkeypatch)
    commits.going.clear()
    one = asyncio.create_task(engine.append_frame(handle, frame("0")))
    await commits.reached.wait()
    many = [asyncio.create_task(engine.append_frame(handle, frame(str(n)))) for n in range(1, 301)]
    await asyncio.sleep(0)
    commits.going.set()
    outcomes = answers([await one, *await asyncio.gather(*many)])
    assert commits.sizes() == [1, 256, 44]
    assert rising(outcomes) and ids(outcomes) == [(ids(outcomes)[0][0], n) for n in range(1, 302)]
    assert await texts(engine, ident) == ["first", *(str(n) for n in range(301))]


async def test_batches_stay_whole_and_in_order_among_others(engine: Engine) -> None:
    ident, handle = await running(engine)
    calls = []
    for n in range(60):
        several = [frame(f"{n}.{at}") for at in range(n % 7 + 1)]
        calls.append(
            engine.append_frames(handle, several)
            if n % 3
            else engine.append_frame(handle, frame(f"{n}.0"))
        )
    found: list[Any] = await asyncio.gather(*calls)
    outcomes = [o for each in found for o in (each if isinstance(each, list) else [each])]
    assert [o.frame_count for o in outcomes] == list(range(1, len(outcomes) + 1))
    assert await texts(engine, ident) == [
        f"{n}.{at}" for n in range(60) for at in range(n % 7 + 1 if n % 3 else 1)
    ]
    assert ids(await frames(engine, ident)) == ids(outcomes)


async def test_many_streams_share_what_is_sent(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [await begun(engine) for _ in range(20)]
    commits = Commits(engine, monkeypatch)
    await asyncio.gather(
        *(engine.append_frame(handle, frame(str(n))) for n in range(3) for _, handle in held)
    )
    assert len(commits.sent) == 40, (
        "one for each stream and, meanwhile, the two that came behind it"
    )
    for ident, _ in held:
        assert await texts(engine, ident) == ["first", "0", "1", "2"]


async def test_an_invalid_patch_fails_its_own_caller_only(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, handle = await begun(engine)
    commits = Commits(engine, monkeypatch)
    commits.going.clear()
    first = asyncio.create_task(engine.append_frame(handle, frame("0")))
    await commits.reached.wait()
    given: list[list[Frame]] = [
        [patch('{"a":1}')],
        [frame("b"), patch("[")],
        [frame("c")],
        [patch("7")],
        [patch('{"d":4}')],
    ]
    calls = [asyncio.create_task(engine.append_frames(handle, several)) for several in given]
    await asyncio.sleep(0)
    commits.going.set()
    found = await asyncio.gather(*calls, return_exceptions=True)
    await first
    assert [isinstance(each, ValidationError) for each in found] == [
        False,
        True,
        False,
        True,
        False,
    ]
    assert await texts(engine, ident) == ["first", "0", '{"a":1}', "c", '{"d":4}']
    summary = await engine.read_summary(ident, 0)
    assert summary is not None and (summary.document_json, summary.version) == (b'{"a":1,"d":4}', 2)


async def test_several_engines_may_write_one_stream(engine: Engine) -> None:
    ident, handle = await running(engine)
    several = (engine, *(Engine(engine.store) for _ in range(3)))

    async def write(at: int) -> list[AppendOutcome]:
        return [await several[at].append_frame(handle, frame(f"{at}.{n}")) for n in range(20)]

    each = await asyncio.gather(*map(write, range(4)))
    assert all(map(rising, each))
    both = sorted((o for outcomes in each for o in outcomes), key=lambda o: o.frame_count)
    assert [o.frame_count for o in both] == list(range(1, 81)) and rising(both)
    written = await texts(engine, ident)
    for at in range(4):
        assert [text for text in written if text.startswith(f"{at}.")] == [
            f"{at}.{n}" for n in range(20)
        ]
    found = await meta(engine, ident)
    assert found is not None and (found.frame_count, found.durable_count, found.version <= 80) == (
        80,
        80,
        True,
    )


# ---- cancelled callers, bounds and close


async def test_a_cancelled_append_in_the_queue_is_not_written(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, handle = await begun(engine)
    for numbered in (False, True):
        commits = Commits(engine, monkeypatch)
        commits.going.clear()
        seqs = [100 + n if numbered else None for n in range(4)]
        calls = [
            asyncio.create_task(engine.append_frame(handle, frame(f"{numbered}{n}", seq=seqs[n])))
            for n in range(4)
        ]
        await commits.reached.wait()
        calls[2].cancel()
        await asyncio.sleep(0)
        commits.going.set()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(each, asyncio.CancelledError) for each in found] == [
            False,
            False,
            True,
            False,
        ]
    assert await texts(engine, ident) == [
        "first",
        *(f"{numbered}{n}" for numbered in (False, True) for n in (0, 1, 3)),
    ]


async def test_a_cancelled_append_in_flight_keeps_the_order(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, handle = await begun(engine)
    commits = Commits(engine, monkeypatch)
    commits.going.clear()
    calls = [asyncio.create_task(engine.append_frame(handle, frame(str(n)))) for n in range(2)]
    await commits.reached.wait()
    calls[0].cancel()
    await asyncio.sleep(0)
    commits.going.set()
    assert isinstance(
        (await asyncio.gather(*calls, return_exceptions=True))[0], asyncio.CancelledError
    )
    assert (await say(engine, handle, "last"))[0].frame_count == 4
    assert await texts(engine, ident) == ["first", "0", "1", "last"], "it was sent already"


async def test_a_queue_is_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    ident, handle = await begun(engine)
    monkeypatch.setattr(stream_writer, "MAX_WAITING", 5)
    commits = Commits(engine, monkeypatch)
    commits.going.clear()
    first = asyncio.create_task(engine.append_frame(handle, frame("0")))
    await commits.reached.wait()
    waiting = [asyncio.create_task(engine.append_frame(handle, frame(str(n)))) for n in range(1, 8)]
    await asyncio.sleep(0)
    commits.going.set()
    found = await asyncio.gather(first, *waiting, return_exceptions=True)
    assert [isinstance(each, ResourceExhausted) for each in found] == [False] * 6 + [True] * 2
    assert await texts(engine, ident) == ["first", *(str(n) for n in range(6))]


async def test_the_number_of_known_streams_is_bounded(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_writer, "MAX_STREAMS", 3)
    held = [await running(engine) for _ in range(6)]
    for _ in range(2):
        await asyncio.gather(*(say(engine, handle, "a", "b") for _, handle in held))
    assert engine.parts.streams.writer.known_streams <= 6
    for ident, _ in held:
        assert await texts(engine, ident) == ["a", "b"] * 2
    _, handle = await running(engine)
    await say(engine, handle, "a")
    assert engine.parts.streams.writer.known_streams <= 6


async def test_closing_waits_for_what_was_accepted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, handle = await begun(engine)
    commits = Commits(engine, monkeypatch)
    commits.going.clear()
    calls = [
        asyncio.create_task(engine.append_frame(handle, frame(str(n), seq=n if n > 300 else None)))
        for n in range(310)
    ]
    await commits.reached.wait()
    finishing = asyncio.create_task(engine.parts.streams.writer.finish())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not finishing.done()
    commits.going.set()
    await finishing
    assert (
        all(call.done() for call in calls)
        and len(answers([call.result() for call in calls])) == 310
    )
    assert await texts(engine, ident) == ["first", *(str(n) for n in range(310))]


async def test_after_closing_nothing_is_accepted(clock: ManualClock) -> None:
    made = memory_engine(clock=clock)
    await create(made)
    handle = await claim(made)
    writing = asyncio.create_task(made.append_frame(handle, frame("a")))
    await asyncio.sleep(0)
    await made.close()
    assert (await writing).frame_count == 1
    with pytest.raises(EngineError):
        await made.append_frame(handle, frame("b"))
