"""A frame with a number of the caller is written once, however often it is sent."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.engine.retry import OTHER_WRITER
from flowfabric.errors import (
    Contention,
    TransportError,
)
from flowfabric.plan import Answer, Plan
from flowfabric.store.port import Read, Scan

from .helpers import after_load, dump, running
from .stream_helpers import answers, begun, frame, live, meta, patch, say, texts
from .suspend_helpers import claim_resumed, park_held, seed, signal


async def test_a_frame_with_a_number_is_written_once(engine: Engine) -> None:
    ident, handle = await begun(engine)
    for mode in (
        frame("a", seq=1),
        live("b", seq=2),
        patch('{"c":1}', seq=2**63 - 1),
        frame("d", seq=0),
    ):
        first = await engine.append_frame(handle, mode)
        before = await dump(engine)
        for again in (engine, Engine(engine.store)):
            assert await again.append_frame(handle, mode) == first
        assert await dump(engine) == before
    assert await texts(engine, ident) == ["first", "a", "b", '{"c":1}', "d"]


async def test_the_number_identifies_a_frame_not_its_content(engine: Engine) -> None:
    ident, handle = await running(engine)
    first = await engine.append_frame(handle, frame("a", seq=1))
    assert await engine.append_frame(handle, patch('{"x":1}', seq=1)) == first
    assert await texts(engine, ident) == ["a"] and await engine.read_summary(ident, 0) is None


async def test_a_number_belongs_to_one_stream(engine: Engine) -> None:
    one, two = await running(engine), await running(engine)
    for ident, handle in (one, two):
        await engine.append_frame(handle, frame("a", seq=1))
        assert await texts(engine, ident) == ["a"]


async def test_a_numbered_frame_sent_concurrently_is_written_once(engine: Engine) -> None:
    ident, handle = await running(engine)
    two = (engine, Engine(engine.store))
    order = [n % 10 for n in range(100)]
    random.Random(1).shuffle(order)
    calls = [two[at % 2].append_frame(handle, frame(str(n), seq=n)) for at, n in enumerate(order)]
    found = answers(await asyncio.gather(*calls))
    assert len({(n, o.frame_id) for n, o in zip(order, found, strict=True)}) == 10
    assert sorted(await texts(engine, ident)) == [str(n) for n in range(10)]
    held = await meta(engine, ident)
    assert held is not None and held.frame_count == 10


async def test_only_the_missing_frames_of_a_batch_are_written(engine: Engine) -> None:
    ident, handle = await running(engine)
    old = await engine.append_frames(handle, [frame("b", seq=2), frame("d", seq=4)])
    found = await engine.append_frames(
        handle, [frame(text, seq=n) for n, text in enumerate("abcde", 1)]
    )
    assert [found[1], found[3]] == old
    assert [found[at].frame_count for at in (0, 2, 4)] == [3, 4, 5]
    assert await texts(engine, ident) == ["b", "d", "a", "c", "e"]
    again = await engine.append_frames(
        handle, [frame(text, seq=n) for n, text in enumerate("abcde", 1)]
    )
    assert again == found
    mixed = await engine.append_frames(handle, [frame("a", seq=1), frame("f")])
    assert mixed[0] == found[0] and mixed[1].frame_count == 6


async def test_a_number_is_known_after_a_resume_elsewhere(engine: Engine) -> None:
    await seed(engine)
    ident, handle = await running(engine)
    first = await engine.append_frame(handle, frame("a", seq=1))
    parked = await park_held(engine, ident, handle)
    await signal(engine, parked)
    resumed = (await claim_resumed(engine, ident)).handle
    assert await engine.append_frame(resumed, frame("a", seq=1)) == first
    assert await texts(engine, ident) == ["a"]


async def test_a_lost_answer_is_returned_by_the_next_call(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, handle = await begun(engine)
    commit = engine.store.commit

    async def lost(plan: Plan) -> Answer:
        await commit(plan)
        raise TransportError("test", "the answer got lost", backend_kind="other")

    with monkeypatch.context() as broken:
        broken.setattr(engine.store, "commit", lost)
        with pytest.raises(TransportError):
            await engine.append_frame(handle, frame("a", seq=1))
    again = await engine.append_frame(handle, frame("a", seq=1))
    assert again.frame_count == 2 and await texts(engine, ident) == ["first", "a"]
    assert (await say(engine, handle, "b"))[0].frame_count == 3


async def test_a_failed_commit_is_an_error_for_its_own_callers(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, handle = await begun(engine)

    async def broken(plans: Any) -> list[Answer]:
        raise TransportError("test", "away", backend_kind="other")

    with monkeypatch.context() as away:
        away.setattr(engine.store, "commit_many", broken)
        several = [engine.append_frame(handle, frame(str(n))) for n in range(3)]
        found = await asyncio.gather(*several, return_exceptions=True)
        assert [isinstance(each, TransportError) for each in found] == [True, False, False], (
            "the others were sent on their own"
        )
    assert (await say(engine, handle, "after"))[0].frame_count == 4
    assert await texts(engine, ident) == ["first", "1", "2", "after"]


def is_by_caller(read: Read) -> bool:
    return isinstance(read, Scan) and read.index == "frames_by_caller"


async def test_an_append_that_is_always_refused_is_a_contention(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, handle = await begun(engine)

    async def outrun() -> None:
        await Engine(engine.store).append_frame(handle, frame("other"))

    other = Engine(engine.store)
    with monkeypatch.context() as fast:
        after_load(engine, fast, is_by_caller, outrun)
        with pytest.raises(Contention) as caught:
            await other.append_frame(handle, frame("mine", seq=1))
    assert caught.value.code == "retry_exhausted"
    assert (
        await other.append_frame(handle, frame("mine", seq=1))
    ).frame_count == 2 + OTHER_WRITER.most
