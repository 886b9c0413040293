"""Concurrent appends: combined in order, each with its own outcome, a numbered frame once."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from flowfabric.connect import memory_engine
from flowfabric.engine.engine import Engine
from flowfabric.engine.streams import stream_writer
from flowfabric.errors import (
    Contention,
    EngineError,
    ResourceExhausted,
    TransportError,
    ValidationError,
)
from flowfabric.model.lease import Handle
from flowfabric.model.stream import AppendOutcome, Frame
from flowfabric.plan import Answer, Plan
from flowfabric.testing import ManualClock

from .helpers import claim, create, dump, running
from .stream_helpers import frame, frames, ids, live, meta, patch, rising, say, texts
from .suspend_helpers import claim_resumed, park_held, seed, signal


class Commits:
    """The plans sent to the store; it can be told to hold them back."""

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


async def begun(engine: Engine, **said: Any) -> tuple[Any, Handle]:
    """A stream that is known to its engine, so that an append goes out without a look."""
    ident, handle = await running(engine, **said)
    await say(engine, handle, "first")
    return ident, handle


def answers(found: list[Any]) -> list[AppendOutcome]:
    assert all(isinstance(each, AppendOutcome) for each in found), found
    return found


# ---- combined


async def test_what_comes_while_one_is_under_way_goes_together(
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


async def test_a_bad_patch_is_told_to_its_own_caller_alone(
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


# ---- written once


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


async def test_the_number_counts_and_not_what_is_sent_with_it(engine: Engine) -> None:
    ident, handle = await running(engine)
    first = await engine.append_frame(handle, frame("a", seq=1))
    assert await engine.append_frame(handle, patch('{"x":1}', seq=1)) == first
    assert await texts(engine, ident) == ["a"] and await engine.read_summary(ident, 0) is None


async def test_a_number_is_of_one_stream(engine: Engine) -> None:
    one, two = await running(engine), await running(engine)
    for ident, handle in (one, two):
        await engine.append_frame(handle, frame("a", seq=1))
        assert await texts(engine, ident) == ["a"]


async def test_sent_many_times_at_once_it_is_written_once(engine: Engine) -> None:
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


async def test_of_a_batch_only_what_is_missing_is_written(engine: Engine) -> None:
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


async def test_a_number_is_known_after_the_attempt_went_on_elsewhere(engine: Engine) -> None:
    await seed(engine)
    ident, handle = await running(engine)
    first = await engine.append_frame(handle, frame("a", seq=1))
    parked = await park_held(engine, ident, handle)
    await signal(engine, parked)
    resumed = (await claim_resumed(engine, ident)).handle
    assert await engine.append_frame(resumed, frame("a", seq=1)) == first
    assert await texts(engine, ident) == ["a"]


async def test_an_answer_that_got_lost_is_had_by_asking_again(
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


async def test_a_store_that_fails_fails_those_it_was_asked_for(
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


async def test_a_stream_that_never_stands_still_is_given_up(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, handle = await begun(engine)
    read = stream_writer.StreamWriter._read

    async def outrun(writer: Any, stream: Any, append: Any) -> Any:
        found = await read(writer, stream, append)
        await Engine(engine.store).append_frame(handle, frame("other"))
        return found

    other = Engine(engine.store)
    with monkeypatch.context() as fast:
        fast.setattr(
            stream_writer.StreamWriter,
            "_read",
            lambda writer, stream, append: (outrun if append.frames[0].seq else read)(
                writer, stream, append
            ),
        )
        with pytest.raises(Contention) as caught:
            await other.append_frame(handle, frame("mine", seq=1))
    assert caught.value.code == "retry_exhausted"
    assert (
        await other.append_frame(handle, frame("mine", seq=1))
    ).frame_count == 2 + stream_writer.MAX_TRIES


# ---- giving up, bounds, and the end


async def test_who_gives_up_in_the_queue_is_not_written(
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


async def test_who_gives_up_in_flight_leaves_the_stream_in_order(
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


async def test_streams_at_hand_are_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_writer, "MAX_STREAMS", 3)
    held = [await running(engine) for _ in range(6)]
    for _ in range(2):
        await asyncio.gather(*(say(engine, handle, "a", "b") for _, handle in held))
    assert len(engine.parts.streams.writer._open) <= 6
    for ident, _ in held:
        assert await texts(engine, ident) == ["a", "b"] * 2
    _, handle = await running(engine)
    await say(engine, handle, "a")
    assert len(engine.parts.streams.writer._open) <= 6


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
