"""Helpers of the tests of output streams: frames, the content of a stream, waiting tails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Handle
from flowfabric.model.policy import ExecutionPolicy, StreamPolicy
from flowfabric.model.stream import (
    AppendOutcome,
    BestEffortLive,
    Durable,
    DurableSummary,
    Frame,
    FrameKind,
    FrameMode,
    StreamFrame,
    StreamFrames,
    StreamMeta,
    Visibility,
)
from flowfabric.rules.streams.stream_forms import META
from flowfabric.store.port import GetAll, Loaded, Read
from tests.patience import patient

from .helpers import asleep_on, running

PATCH = DurableSummary()
LIVE = BestEffortLive(5_000)
SOON_S = 10.0
"""More than anything here takes; only what hangs gets there."""


def frame(data: bytes | str = b"x", mode: FrameMode | None = None, **said: Any) -> Frame:
    raw = data.encode() if isinstance(data, str) else data
    return Frame(raw, FrameKind.Event, mode=mode or Durable(), **said)


def patch(data: bytes | str, **said: Any) -> Frame:
    return frame(data, PATCH, **said)


def live(data: bytes | str = b"tick", mode: BestEffortLive = LIVE, **said: Any) -> Frame:
    return frame(data, mode, **said)


def keeping(count: int) -> ExecutionPolicy:
    return ExecutionPolicy(stream_policy=StreamPolicy(retention_maxlen=count))


async def say(engine: Engine, handle: Handle, *texts: str) -> list[AppendOutcome]:
    """One append after the other."""
    return [await engine.append_frame(handle, frame(text)) for text in texts]


async def frames(
    engine: Engine, ident: ExecutionId, attempt: int = 0, **said: Any
) -> tuple[StreamFrame, ...]:
    return (await engine.read_stream(ident, attempt, **{"count_limit": 10_000, **said})).frames


async def texts(engine: Engine, ident: ExecutionId, attempt: int = 0, **said: Any) -> list[str]:
    return [each.payload.decode() for each in await frames(engine, ident, attempt, **said)]


def ids(several: Iterable[StreamFrame | AppendOutcome]) -> list[tuple[int, int]]:
    """As numbers, for the text of an id does not sort."""
    found = [each.id if isinstance(each, StreamFrame) else each.frame_id for each in several]
    return [(int(ts), int(seq)) for ts, _, seq in (each.partition("-") for each in found)]


def rising(several: Iterable[StreamFrame | AppendOutcome]) -> bool:
    found = ids(several)
    return found == sorted(set(found))


async def meta(engine: Engine, ident: ExecutionId, attempt: int = 0) -> StreamMeta | None:
    rows = [StreamMeta(*row) for row in (await engine.store.dump([META]))[META]]
    return next(
        (m for m in rows if (m.execution_id, m.attempt_index) == (ident.uuid, attempt)), None
    )


async def tailing(
    engine: Engine, ident: ExecutionId, attempt: int = 0, **said: Any
) -> asyncio.Task[StreamFrames]:
    """A tail that found nothing and sleeps."""
    tail = asyncio.create_task(engine.tail_stream(ident, attempt, **{"block_ms": 30_000, **said}))
    await asleep(engine, ident)
    return tail


async def asleep(engine: Engine, ident: ExecutionId, count: int = 1) -> None:
    """Until so many sleep on a stream of this execution."""
    async with patient(SOON_S):
        while asleep_on(engine, "frames", ident.uuid) < count:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def soon(tail: asyncio.Task[StreamFrames]) -> StreamFrames:
    async with patient(SOON_S):
        return await tail


class Loads:
    """Counts what is asked of the store, as far as it is of interest."""

    def __init__(
        self,
        engine: Engine,
        monkeypatch: pytest.MonkeyPatch,
        wanted: Callable[[Read], bool] = lambda _: True,
    ) -> None:
        self.count = 0
        load = engine.store.load

        async def counted(reads: Any) -> Loaded:
            self.count += any(map(wanted, reads))
            return await load(reads)

        monkeypatch.setattr(engine.store, "load", counted)


def is_poll(read: Read) -> bool:
    """A poll of the watcher reads the versions of the followed streams."""
    return isinstance(read, GetAll) and read.table == META and "version" in (read.columns or ())


KEPT = Visibility.ExcludeBestEffort


async def begun(engine: Engine, **said: Any) -> tuple[Any, Handle]:
    """A stream whose state the engine knows, so an append needs no read."""
    ident, handle = await running(engine, **said)
    await say(engine, handle, "first")
    return ident, handle


def answers(found: Sequence[Any]) -> list[AppendOutcome]:
    assert all(isinstance(each, AppendOutcome) for each in found), found
    return list(found)
