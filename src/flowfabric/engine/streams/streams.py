"""Output streams: a worker writes while it runs, and anybody follows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct

from flowfabric.codec import frame_id
from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.leases.facts import LeaseCache
from flowfabric.engine.streams.stream_watcher import StreamWatcher, frames_of
from flowfabric.engine.streams.stream_writer import StreamWriter
from flowfabric.errors import NotFound, ValidationError, ValidationKind, invalid
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Handle
from flowfabric.model.stream import (
    MAX_TAIL_BLOCK_MS,
    STREAM_READ_HARD_CAP,
    AppendOutcome,
    Frame,
    StreamFrame,
    StreamFrames,
    SummaryDocument,
    Visibility,
)
from flowfabric.plan import Applied
from flowfabric.rules.streams import streams
from flowfabric.rules.streams.frames import check_batch, check_frame, decode_fields
from flowfabric.rules.workers import retention
from flowfabric.store.port import Get, Scan

DEFAULT_COUNT = 100
FOLLOWED_PAGE = 1_000
MAX_ATTEMPT_INDEX = 2**31 - 1
_SHOWN = ("ts_ms", "seq", "fields")
Key = tuple[int, UUID, int]


class Page(Struct, frozen=True):
    """Frames, and how things stand with the attempt and its execution on the same snapshot."""

    frames: tuple[StreamFrame, ...]
    known: bool
    closed: tuple[int, str] | None
    at_attempt: int
    ended: bool

    @property
    def is_over(self) -> bool:
        """The attempt ended and cannot go on."""
        return self.closed is not None and self.closed[1] not in streams.TAKEN_BACK

    @property
    def never_comes(self) -> bool:
        """There is no such attempt and will be none."""
        return not self.known and self.ended

    def shown(self) -> StreamFrames:
        return StreamFrames(self.frames, *(self.closed or (None, None)))


class Streams:
    """Writes, reads and follows output streams."""

    def __init__(self, core: Core, leases: LeaseCache) -> None:
        self._core, self._store, self._leases = core, core.store, leases
        self.writer = StreamWriter(
            core.store,
            lambda fields: core.snapshots.load(
                fields.execution_id, attempt_index=fields.attempt_index
            ),
        )
        self.watcher = StreamWatcher(core.store)
        self.joined: dict[Any, asyncio.Task[Page | None]] = {}

    # ---- writing

    async def append_frame(self, handle: Handle, frame: Frame) -> AppendOutcome:
        """Adds a frame to the stream of the attempt. It is written when this returns, and only while the lease holds."""
        fields = self._leases.fields(handle)
        check_frame(frame)
        return (await self.writer.write(fields, (frame,), await self._store.now_ms()))[0]

    async def append_frames(self, handle: Handle, frames: Sequence[Frame]) -> list[AppendOutcome]:
        """Several frames with consecutive ids, all or none."""
        fields = self._leases.fields(handle)
        check_batch(frames)
        return await self.writer.write(fields, tuple(frames), await self._store.now_ms())

    # ---- reading

    async def read_stream(
        self,
        execution: ExecutionId,
        attempt_index: int,
        from_: str = "start",
        to: str = "end",
        count_limit: int = DEFAULT_COUNT,
        visibility: Visibility = Visibility.All,
    ) -> StreamFrames:
        """Frames of a range, both ends included, and whether the stream has ended. Of an unknown stream there are none."""
        lower, upper = frame_id.lower_bound(from_), frame_id.upper_bound(to)
        frame_id.check_range(lower, upper)
        key = key_of(execution, attempt_index)
        after = None if lower is None else (lower[0], lower[1] - 1)
        page = await self._page(key, after, upper, _count(count_limit), visible(visibility))
        return StreamFrames(()) if page is None else page.shown()

    async def tail_stream(
        self,
        execution: ExecutionId,
        attempt_index: int,
        after: str = "0-0",
        block_ms: int = 0,
        count_limit: int = DEFAULT_COUNT,
        visibility: Visibility = Visibility.All,
    ) -> StreamFrames:
        """Frames behind a cursor; if there are none, waits for some, or for the end, at most so long. No connection is held.

        An attempt that may still be claimed is waited for too.
        """
        behind = frame_id.after(after)
        key = key_of(execution, attempt_index)
        wait_ms = validation.whole(block_ms, "block_ms", 0, MAX_TAIL_BLOCK_MS)
        count, index = _count(count_limit), visible(visibility)
        page = await self.tail(
            key,
            behind,
            wait_ms / 1000,
            count,
            index,
            lambda page: page.closed is not None or page.never_comes,
        )
        if not page.known:
            raise NotFound("attempt", f"{attempt_index} of {execution}")
        return page.shown()

    async def read_summary(
        self, execution: ExecutionId, attempt_index: int
    ) -> SummaryDocument | None:
        """The document the summary frames of an attempt have made so far."""
        read = Get(
            streams.SUMMARY,
            key_of(execution, attempt_index),
            ("document_json", "version", "patch_kind", "last_updated_ms", "first_applied_ms"),
        )
        rows = (await self._store.load((read,))).rows[0]
        return SummaryDocument(rows[0][0].encode(), *rows[0][1:]) if rows else None

    async def forget_live_frames(self, limit: int = 1_000) -> int:
        """Drops best-effort frames past their time; how many."""
        size = validation.limit(limit, retention.MAX_TRIM_BATCH)
        now = await self._store.now_ms()
        columns = ("partition_key", "execution_id", "attempt_index", "ts_ms", "seq")
        rows = (
            await self._store.load(
                (Scan("expiring_frames", upto=now, limit=size, columns=columns),)
            )
        ).rows[0]
        plans = [
            streams.FORGET_FRAME(row[0], **dict(zip(columns, row, strict=True)), now=now)
            for row in rows
        ]
        return (
            sum(isinstance(a, Applied) for a in await self._store.commit_many(plans))
            if plans
            else 0
        )

    # ---- following

    async def tail(
        self,
        key: Key,
        after: tuple[int, int],
        wait_s: float,
        count: int,
        index: str,
        enough: Callable[[Page], bool],
    ) -> Page:
        """Listens first, then looks, then sleeps. `enough` says when there is nothing to wait for."""
        until = time.monotonic() + wait_s
        with self._store.hub.waiter(frames_of(key[1])) as bell:
            watched = False
            try:
                while True:
                    bell.arm()
                    page = await self._shared_page(key, after, count, index)
                    if page is None:
                        raise NotFound("execution", ExecutionId.of(key[0], key[1]))
                    left = until - time.monotonic()
                    if page.frames or enough(page) or left <= 0:
                        return page
                    if not watched:
                        watched = True
                        await self.watcher.begin(key)
                        continue  # what happened before the watch stood is looked at once more
                    await bell.wait(left)
            finally:
                if watched:
                    self.watcher.end(key)

    async def _shared_page(
        self, key: Key, after: tuple[int, int], count: int, index: str
    ) -> Page | None:
        """Many who stand at the same place and wake together ask once. Who comes after the question is sent asks again."""
        asked = (key, after, count, index)
        task = self.joined.get(asked)
        if task is None:
            task = self.joined[asked] = asyncio.create_task(self._asked(asked))
        return await asyncio.shield(task)

    async def _asked(self, asked: Any) -> Page | None:
        await asyncio.sleep(0)
        key, after, count, index = asked
        del self.joined[asked]
        return await self._page(key, after, None, count, index)

    async def _page(
        self,
        key: Key,
        after: tuple[int, int] | None,
        upper: frame_id.UpperBound | None,
        count: int,
        index: str,
    ) -> Page | None:
        """Frames and the state of the attempt on one snapshot; None where there is no such attempt."""
        group = dict(zip(("partition_key", "execution_id", "attempt_index"), key, strict=True))
        loaded = await self._store.load(
            (
                Scan(index, group, after, None if upper is None else upper[0], count, _SHOWN),
                Get("ff_attempt", key, streams.AttemptEnd.__struct_fields__),
                Get("ff_exec_core", key[:2], streams.Standing.__struct_fields__),
            )
        )
        rows, attempt, execution = loaded.rows
        if not execution:
            return None
        if upper is not None and upper[1] is not None:
            rows = [row for row in rows if row[:2] <= upper]
        state = streams.Standing(*execution[0])
        closed = streams.closure(state, streams.AttemptEnd(*attempt[0])) if attempt else None
        frames = tuple(
            StreamFrame(frame_id.frame_id(ts_ms, seq), decode_fields(fields))
            for ts_ms, seq, fields in rows
        )
        return Page(frames, bool(attempt), closed, state.attempt_index, state.ended)


def key_of(execution: ExecutionId, attempt_index: int) -> Key:
    if not isinstance(execution, ExecutionId):
        raise invalid("execution", "an ExecutionId", execution)
    return (
        execution.partition_index,
        execution.uuid,
        validation.whole(attempt_index, "attempt_index", 0, MAX_ATTEMPT_INDEX),
    )


def _count(count_limit: int) -> int:
    if not isinstance(count_limit, int) or isinstance(count_limit, bool) or count_limit < 1:
        raise ValidationError(ValidationKind.INVALID_INPUT, "count_limit must be >= 1")
    if count_limit > STREAM_READ_HARD_CAP:
        detail = f"count_limit_exceeds_hard_cap: at most {STREAM_READ_HARD_CAP}, got {count_limit}"
        raise ValidationError(ValidationKind.INVALID_INPUT, detail)
    return count_limit


def visible(visibility: Visibility) -> str:
    if not isinstance(visibility, Visibility):
        raise invalid("visibility", "a Visibility", visibility)
    return "frames" if visibility is Visibility.All else "kept_frames"
