"""Appending to the stream of an attempt: permission, refusals and their order, and the stored
frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import (
    ContentionKind,
    EngineError,
    NotFound,
    StateKind,
    ValidationError,
    ValidationKind,
)
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.lease import BackendTag, Handle, RevokeLeaseArgs
from flowfabric.model.stream import (
    MAX_BATCH_BYTES,
    MAX_BATCH_FRAMES,
    MAX_FRAME_BYTES,
    Frame,
    FrameKind,
)
from flowfabric.testing import ManualClock

from .helpers import (
    TTL_MS,
    claim,
    dump,
    fields,
    forged,
    invalid,
    lost,
    new_id,
    other_uuid,
    refused,
    requeued,
    running,
    worker,
)
from .stream_helpers import LIVE, PATCH, frame, frames, ids, live, meta, patch, rising, say, texts
from .suspend_helpers import claim_resumed, park_held, seed, signal

BAD_PATCH = patch(b"[1]")
Ending = Callable[[Engine, ExecutionId, Handle, ManualClock], Awaitable[Any]]


async def _suspend(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> None:
    await seed(engine)
    await park_held(engine, ident, handle)


async def _lose(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> None:
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(ident)


async def _run_out(engine: Engine, ident: ExecutionId, handle: Handle, clock: ManualClock) -> None:
    clock.advance(TTL_MS)


# what takes the lease away raises the epoch, and the epoch is looked at before the phase
ENDINGS: dict[str, tuple[Ending, StateKind | ContentionKind]] = {
    "complete": (lambda e, i, h, c: e.complete(h, b"x"), StateKind.STREAM_CLOSED),
    "fail for good": (
        lambda e, i, h, c: e.fail(h, "no", FailureClass.PERMANENT),
        StateKind.STREAM_CLOSED,
    ),
    "fail and retry": (lambda e, i, h, c: e.fail(h, "no"), StateKind.STREAM_CLOSED),
    "cancel by the holder": (lambda e, i, h, c: e.cancel(h, "x"), ContentionKind.LEASE_CONFLICT),
    "cancel by an operator": (
        lambda e, i, h, c: e.cancel_execution(CancelExecutionArgs(execution_id=i)),
        ContentionKind.LEASE_CONFLICT,
    ),
    "suspend": (_suspend, ContentionKind.LEASE_CONFLICT),
    "delay": (lambda e, i, h, c: e.delay(h, c() + 1_000), StateKind.STREAM_CLOSED),
    "revoke": (
        lambda e, i, h, c: e.revoke_lease(RevokeLeaseArgs(execution_id=i)),
        ContentionKind.LEASE_CONFLICT,
    ),
    "lease ran out": (_run_out, StateKind.LEASE_EXPIRED),
    "lease noticed as run out": (_lose, StateKind.LEASE_EXPIRED),
}


# ---- refusals, in their order


async def unchanged(engine: Engine, call: Callable[[], Awaitable[Any]]) -> EngineError:
    """The call is refused and leaves every table as it was."""
    before = await dump(engine)
    with pytest.raises(EngineError) as caught:
        await call()
    assert await dump(engine) == before
    return caught.value


async def test_a_handle_of_another_backend_comes_first(engine: Engine) -> None:
    _, handle = await running(engine)
    other = BackendTag.SQLITE if engine.store.tag is BackendTag.POSTGRES else BackendTag.POSTGRES
    foreign = Handle(other.label, handle.kind, forged(handle, tag=other).opaque)
    for bad, kind in (
        (foreign, ValidationKind.HANDLE_FROM_OTHER_BACKEND),
        (Handle(handle.backend, handle.kind, b"junk"), ValidationKind.CORRUPTION),
        (Handle(handle.backend, handle.kind, b""), ValidationKind.CORRUPTION),
    ):
        error = await unchanged(
            engine, lambda bad=bad: engine.append_frame(bad, frame(b"x" * (MAX_FRAME_BYTES + 1)))
        )  # type: ignore[misc]
        assert isinstance(error, ValidationError) and error.kind is kind


async def test_the_size_comes_before_the_lease(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await engine.append_frame(handle, frame(b"x" * MAX_FRAME_BYTES))
    clock.advance(TTL_MS)
    error = await unchanged(
        engine, lambda: engine.append_frame(handle, frame(b"x" * (MAX_FRAME_BYTES + 1)))
    )
    assert (
        isinstance(error, ValidationError) and error.kind is ValidationKind.RETENTION_LIMIT_EXCEEDED
    )
    assert [len(each.payload) for each in await frames(engine, ident)] == [MAX_FRAME_BYTES]


async def test_what_does_not_exist_comes_before_the_epoch(engine: Engine) -> None:
    _, handle = await running(engine)
    for given in (frame(), BAD_PATCH, frame(seq=1)):
        for changes, what in (
            ({"execution_id": new_id(), "lease_epoch": 9}, "execution"),
            ({"attempt_index": 7, "lease_epoch": 9}, "attempt"),
        ):
            bad = forged(handle, **changes)
            error = await unchanged(
                engine, lambda bad=bad, given=given: engine.append_frame(bad, given)
            )  # type: ignore[misc]
            assert isinstance(error, NotFound) and error.entity == what


@pytest.mark.parametrize(
    "changes",
    [
        {"lease_epoch": 7},
        {"lease_id": other_uuid()},
        {"worker_instance_id": "somebody else"},
        {"lease_epoch": 2**63},
    ],
    ids=lambda changes: next(iter(changes)),
)
@pytest.mark.parametrize("mode", ["durable", "bad patch", "with a seq"])
async def test_another_lease_comes_before_the_patch(
    engine: Engine, changes: dict[str, Any], mode: str
) -> None:
    _, handle = await running(engine)
    await say(engine, handle, "a")
    given = {"durable": frame(), "bad patch": BAD_PATCH, "with a seq": frame(seq=4)}[mode]
    await refused(
        engine.append_frame(forged(handle, **changes), given), ContentionKind.LEASE_CONFLICT
    )
    await unchanged(engine, lambda: engine.append_frame(forged(handle, **changes), given))


@pytest.mark.parametrize("begun", [True, False], ids=["a stream", "no stream yet"])
@pytest.mark.parametrize("how", ENDINGS)
async def test_nothing_is_written_after_the_end(
    engine: Engine, clock: ManualClock, how: str, begun: bool
) -> None:
    ident, handle = await running(engine)
    if begun:
        await say(engine, handle, "a")
    end, kind = ENDINGS[how]
    await end(engine, ident, handle, clock)
    before = await dump(engine)
    for given in (frame(), live(), patch("{}"), BAD_PATCH, frame(seq=3)):
        await refused(engine.append_frame(handle, given), kind)
        await refused(engine.append_frames(handle, [frame(), given]), kind)
    assert await dump(engine) == before, "not even the mark that the lease ran out"
    assert await texts(engine, ident) == ["a"] * begun


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"", "summary patch not valid JSON: "),
        (b"{]", "summary patch not valid JSON: "),
        (b"\xff{}", "summary patch not valid JSON: "),
        (b"null", "patch must be a JSON object"),
        (b"[{}]", "patch must be a JSON object"),
        (b'{"a":' * 17 + b"1" + b"}" * 17, "patch_depth_exceeded"),
    ],
)
async def test_a_patch_is_looked_at_last(engine: Engine, data: bytes, detail: str) -> None:
    ident, handle = await running(engine)
    for begun in (False, True):
        error = await unchanged(engine, lambda: engine.append_frame(handle, patch(data)))
        assert isinstance(error, ValidationError) and error.kind is ValidationKind.INVALID_INPUT
        assert error.detail.startswith(detail)
        await say(engine, handle, "a")
        assert len(await texts(engine, ident)) == begun + 1


async def test_a_batch_is_bounded(engine: Engine) -> None:
    _, handle = await running(engine)
    await invalid(engine.append_frames(handle, []), "1 to 256")
    await invalid(engine.append_frames(handle, [frame()] * (MAX_BATCH_FRAMES + 1)), "1 to 256")
    await invalid(engine.append_frames(handle, frame()), "a list")  # type: ignore[arg-type]
    await invalid(engine.append_frames(handle, [frame(seq=1), frame(seq=1)]), "each seq once")
    most = [frame(b"x" * MAX_FRAME_BYTES)] * (MAX_BATCH_BYTES // MAX_FRAME_BYTES)
    error = await invalid(engine.append_frames(handle, [*most, frame(b"x")]))
    assert error.kind is ValidationKind.RETENTION_LIMIT_EXCEEDED
    assert len(await engine.append_frames(handle, most)) == 16
    assert len(await engine.append_frames(handle, [frame()] * MAX_BATCH_FRAMES)) == MAX_BATCH_FRAMES


async def test_one_bad_frame_and_none_is_written(engine: Engine) -> None:
    _, handle = await running(engine)
    await say(engine, handle, "a")
    for bad in (BAD_PATCH, frame(b"x" * (MAX_FRAME_BYTES + 1)), Frame("text", FrameKind.Blob)):  # type: ignore[arg-type]
        error = await unchanged(
            engine,
            lambda bad=bad: engine.append_frames(handle, [frame(), patch("{}"), bad, live()]),
        )  # type: ignore[misc]
        assert isinstance(error, ValidationError)


# ---- what a frame looks like


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"", "utf8"),
        (b"plain", "utf8"),
        ("\u20ac \U0001f600 \u2028 \x7f \x01 \" \\ ' {}".encode(), "utf8"),
        (rb"\u0000 is not NUL", "utf8"),
        (b"a\x00b", "base64"),
        (b"\xff\xfe\x00\x80", "base64"),
        ("\ud800".encode(errors="surrogatepass"), "base64"),
        (bytes(range(256)), "base64"),
    ],
)
async def test_every_payload_comes_back_as_it_was(
    engine: Engine, data: bytes, encoding: str
) -> None:
    ident, handle = await running(engine)
    await engine.append_frame(handle, frame(data))
    (found,) = await frames(engine, ident)
    assert (found.payload, found.fields["encoding"]) == (data, encoding)


async def test_a_frame_shows_all_its_fields_in_order(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    given = [Frame(b"1", FrameKind.Stdout), Frame(b"2", FrameKind.Blob, "log", 'c"\u20ac', 9, LIVE)]
    outcomes = await engine.append_frames(
        handle, [*given, Frame(b"{}", FrameKind.Event, mode=PATCH)]
    )
    assert [(o.stream_id, o.frame_id, o.frame_count, o.summary_version) for o in outcomes] == [
        (f"{ident}:0", f"{clock()}-{n}", n + 1, 1 if n == 2 else None) for n in range(3)
    ]
    common = {"encoding": "utf8", "source": "worker", "ts": str(clock())}
    assert [each.fields for each in await frames(engine, ident)] == [
        {**common, "frame_type": "stdout", "mode": "durable", "payload": "1"},
        {
            **common,
            "frame_type": "log",
            "mode": "best_effort",
            "payload": "2",
            "correlation_id": 'c"\u20ac',
            "ttl_ms": "5000",
        },
        {
            **common,
            "frame_type": "event",
            "mode": "summary",
            "payload": "{}",
            "summary_version": "1",
        },
    ]
    assert all(list(each.fields) == sorted(each.fields) for each in await frames(engine, ident))


async def test_an_append_leaves_the_execution_alone(engine: Engine) -> None:
    _, handle = await running(engine)
    before = await dump(engine)
    await engine.append_frames(handle, [frame(), live(), patch("{}")])
    after = await dump(engine)
    moved = {table for table in before if before[table] != after[table]}
    assert moved == {"ff_stream_meta", "ff_stream_frame", "ff_stream_summary"}


# ---- ids


async def test_ids_rise_when_the_clock_steps_back(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    outcomes = await say(engine, handle, "a")
    clock.advance(-10_000)
    outcomes += await say(engine, handle, "b")
    outcomes += await engine.append_frames(handle, [frame("c"), live("d")])
    other = Engine(engine.store)
    outcomes += await say(other, handle, "e")
    clock.advance(10_001)
    outcomes += await say(engine, handle, "f")
    assert rising(outcomes) and await texts(engine, ident) == list("abcdef")
    assert ids(outcomes) == [*((clock() - 1, n) for n in range(5)), (clock(), 0)]


async def test_a_thousand_in_one_millisecond_keep_their_order(engine: Engine) -> None:
    ident, handle = await running(engine)
    outcomes = await asyncio.gather(
        *(engine.append_frame(handle, frame(str(n))) for n in range(1_000))
    )
    assert [o.frame_count for o in outcomes] == list(range(1, 1_001)) and rising(outcomes)
    assert ids(outcomes) == [(ids(outcomes)[0][0], n) for n in range(1_000)]
    assert await texts(engine, ident) == [str(n) for n in range(1_000)]
    found = await meta(engine, ident)
    assert found is not None and (found.frame_count, found.durable_count) == (1_000, 1_000)
    assert found.total_bytes == sum(len(str(n)) for n in range(1_000))


# ---- who writes next


async def test_a_resumed_attempt_continues_its_stream(engine: Engine) -> None:
    await seed(engine)
    ident, handle = await running(engine)
    outcomes = await say(engine, handle, "a")
    parked = await park_held(engine, ident, handle)
    await refused(engine.append_frame(parked.handle, frame()), ContentionKind.LEASE_CONFLICT)
    await signal(engine, parked)
    resumed = (await claim_resumed(engine, ident)).handle
    assert fields(resumed).attempt_index == 0
    outcomes += await say(engine, resumed, "b")
    await refused(engine.append_frame(handle, frame()), ContentionKind.LEASE_CONFLICT)
    assert rising(outcomes) and await texts(engine, ident) == ["a", "b"]
    assert [o.frame_count for o in outcomes] == [1, 2]


async def test_the_new_holder_appends_and_the_former_one_is_refused(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await running(engine)
    outcomes = await say(engine, handle, "a")
    clock.advance(TTL_MS)
    await refused(engine.append_frame(handle, frame()), StateKind.LEASE_EXPIRED)
    await engine.mark_lease_expired_if_due(ident)
    assert (await engine.read_stream(ident, 0)).closed_reason == "lease_expired"
    clock.advance(5_000)
    assert await engine.requeue_lost(ident) == "requeued"
    await refused(engine.append_frame(handle, frame()), StateKind.LEASE_EXPIRED)
    taken = await claim(engine, worker(2))
    index = fields(taken).attempt_index
    outcomes += await say(engine, taken, "b")
    await refused(engine.append_frame(handle, frame()), StateKind.LEASE_EXPIRED)
    page = await engine.read_stream(ident, index)
    assert not page.closed and rising(outcomes)
    assert [
        *await texts(engine, ident, 0),
        *(await texts(engine, ident, index) if index else []),
    ] == ["a", "b"]


async def test_helpers_of_a_lost_lease_are_refused_from_any_engine(
    engine: Engine, clock: ManualClock
) -> None:
    ident, handle = await lost(engine, clock)
    await refused(Engine(engine.store).append_frame(handle, frame()), StateKind.LEASE_EXPIRED)
    clock.advance(5_000)
    await engine.requeue_lost(ident)
    await refused(Engine(engine.store).append_frame(handle, frame()), StateKind.LEASE_EXPIRED)
    assert await meta(engine, ident) is None


async def test_frames_go_with_their_execution(engine: Engine, clock: ManualClock) -> None:
    _, handle = await running(engine)
    await engine.append_frames(handle, [frame(), live(), patch("{}")])
    await engine.complete(handle)
    clock.advance(365 * 86_400_000)
    assert await engine.trim_retention("default", 0) == 1
    left = await dump(engine)
    assert [
        left[table] for table in ("ff_stream_meta", "ff_stream_frame", "ff_stream_summary")
    ] == [[], [], []]


async def test_a_requeued_execution_has_no_open_stream(engine: Engine, clock: ManualClock) -> None:
    ident, _ = await requeued(engine, clock)
    assert (await engine.tail_stream(ident, 0)).closed_reason == "lease_expired"
