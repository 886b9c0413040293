"""Output streams: a worker appends frames while it runs, followers read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

from flowfabric.codec import frame_id
from flowfabric.engine import validation
from flowfabric.engine.batcher import Batcher
from flowfabric.engine.core import Core
from flowfabric.engine.leases.facts import LeaseCache
from flowfabric.engine.snapshots import load_all, load_one
from flowfabric.engine.streams.stream_watcher import StreamKey, StreamWatcher, frames_of
from flowfabric.engine.streams.stream_writer import StreamWriter
from flowfabric.errors import NotFound, bad_input, invalid
from flowfabric.ids import ExecutionId
from flowfabric.model import stream as model
from flowfabric.model.lease import Handle
from flowfabric.rules.streams import stream_forms, streams
from flowfabric.rules.streams.frames import check_batch, check_frame, decode_fields
from flowfabric.rules.workers import retention
from flowfabric.store.port import Get, Scan

DEFAULT_COUNT = 100
FOLLOWED_PAGE = 1_000
MAX_ATTEMPT_INDEX = 2**31 - 1
MAX_SHARED = 10_000
_SHOWN = ("ts_ms", "seq", "fields")
_KEY = ("partition_key", "execution_id", "attempt_index")


class _FrameKey(NamedTuple):
    """The key of a best-effort frame, column by column."""

    partition_key: int
    execution_id: UUID
    attempt_index: int
    ts_ms: int
    seq: int


class _Document(NamedTuple):
    document_json: str
    version: int
    patch_kind: str
    last_updated_ms: int
    first_applied_ms: int


class _PageRequest(Struct, frozen=True):
    key: StreamKey
    after: tuple[int, int] | None
    upper: frame_id.UpperBound | None
    count: int
    index: str


class Page(Struct, frozen=True):
    """Frames with the state of the attempt and its execution, from one snapshot."""

    frames: tuple[model.StreamFrame, ...]
    has_attempt: bool
    closed: tuple[int, str] | None
    current_attempt: int
    ended: bool

    @property
    def is_over(self) -> bool:
        """The attempt has ended and cannot resume."""
        return self.closed is not None and self.closed[1] not in streams.LEASE_LOST_CAUSES

    @property
    def never_comes(self) -> bool:
        """The attempt does not exist and cannot be claimed any more."""
        return not self.has_attempt and self.ended

    def shown(self) -> model.StreamFrames:
        return model.StreamFrames(self.frames, *(self.closed or (None, None)))


class Streams:
    def __init__(self, core: Core, leases: LeaseCache) -> None:
        self._core, self._store, self._leases = core, core.store, leases
        self.writer = StreamWriter(core)
        self.watcher = StreamWatcher(core.store)
        self.shared_reads: Batcher[_PageRequest, None, Page | None] = Batcher(
            self._read_shared, MAX_SHARED
        )

    # ---- writing

    async def append_frame(self, handle: Handle, frame: model.Frame) -> model.AppendOutcome:
        """Adds a frame to the stream of the attempt while the lease holds; it is then stored."""
        fields = self._leases.fields(handle)
        check_frame(frame)
        return (await self.writer.write(fields, (frame,), await self._store.now_ms()))[0]

    async def append_frames(
        self, handle: Handle, frames: Sequence[model.Frame]
    ) -> list[model.AppendOutcome]:
        """Adds several frames with consecutive ids, all or none."""
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
        visibility: model.Visibility = model.Visibility.All,
    ) -> model.StreamFrames:
        """Frames of a range, both ends included, and whether the stream has ended.

        An unknown stream has no frames.
        """
        lower, upper = frame_id.lower_bound(from_), frame_id.upper_bound(to)
        frame_id.check_range(lower, upper)
        key = key_of(execution, attempt_index)
        after = None if lower is None else (lower[0], lower[1] - 1)
        request = _PageRequest(key, after, upper, _count(count_limit), visible(visibility))
        page = await self._read(request)
        return model.StreamFrames(()) if page is None else page.shown()

    async def tail_stream(
        self,
        execution: ExecutionId,
        attempt_index: int,
        after: str = "0-0",
        block_ms: int = 0,
        count_limit: int = DEFAULT_COUNT,
        visibility: model.Visibility = model.Visibility.All,
    ) -> model.StreamFrames:
        """Frames after a cursor. Without any, waits up to `block_ms` for a frame or the end.

        It also waits for an attempt that may still be claimed. It holds no connection.
        """
        behind = frame_id.after(after)
        key = key_of(execution, attempt_index)
        wait_ms = validation.whole(block_ms, "block_ms", 0, model.MAX_TAIL_BLOCK_MS)
        count, index = _count(count_limit), visible(visibility)
        page = await self.tail(
            key,
            behind,
            wait_ms / 1000,
            count,
            index,
            lambda page: page.closed is not None or page.never_comes,
        )
        if not page.has_attempt:
            raise NotFound("attempt", f"{attempt_index} of {execution}")
        return page.shown()

    async def read_summary(
        self, execution: ExecutionId, attempt_index: int
    ) -> model.SummaryDocument | None:
        """The document that the summary frames of an attempt have built so far."""
        read = Get(stream_forms.SUMMARY, key_of(execution, attempt_index), _Document._fields)
        found = await load_one(self._store, read, _Document)
        return found and model.SummaryDocument(found.document_json.encode(), *found[1:])

    async def forget_live_frames(self, limit: int = 1_000) -> int:
        """Drops expired best-effort frames; returns how many."""
        size = validation.limit(limit, retention.MAX_TRIM_BATCH)
        now = await self._store.now_ms()
        read = Scan("expiring_frames", upto=now, limit=size, columns=_FrameKey._fields)
        expired = await load_all(self._store, read, _FrameKey)
        return await self._core.commit_each(
            [stream_forms.FORGET_FRAME(**frame._asdict(), now=now) for frame in expired]
        )

    # ---- following

    async def tail(
        self,
        key: StreamKey,
        after: tuple[int, int],
        wait_s: float,
        count: int,
        index: str,
        enough: Callable[[Page], bool],
    ) -> Page:
        """A page with frames or one that is `enough`, or the page at the end of the time.

        The waiter is armed before each read, so a frame that is committed after the read wakes it.
        """
        until = time.monotonic() + wait_s
        request = _PageRequest(key, after, None, count, index)
        with self._store.hub.waiter(frames_of(key[1])) as waiter:
            followed = False
            try:
                while True:
                    waiter.arm()
                    page = await self.shared_reads.submit(request, None)
                    if page is None:
                        raise NotFound("execution", ExecutionId.of(key[0], key[1]))
                    left = until - time.monotonic()
                    if page.frames or enough(page) or left <= 0:
                        return page
                    if not followed:
                        followed = True
                        await self.watcher.follow(key)
                        continue  # an end before the watch began wakes no follower: read again
                    await waiter.wait(left)
            finally:
                if followed:
                    self.watcher.unfollow(key)

    async def _read_shared(
        self, request: _PageRequest, callers: Sequence[None]
    ) -> list[Page | None]:
        """Followers at the same place that wake together share a read.

        A read that has begun is not shared: it may be older than the event that woke the caller.
        """
        return [await self._read(request)] * len(callers)

    async def _read(self, request: _PageRequest) -> Page | None:
        """Frames and the state of the attempt from one snapshot; None without the execution."""
        key = request.key
        group = dict(zip(_KEY, key, strict=True))
        bound, bound_seq = request.upper or (None, None)
        last = None if bound is None or bound_seq is None else (bound, bound_seq)
        loaded = await self._store.load(
            (
                Scan(request.index, group, request.after, bound, request.count, _SHOWN),
                Get("ff_attempt", key, streams.AttemptEnd.__struct_fields__),
                Get("ff_exec_core", key[:2], streams.StreamExecution.__struct_fields__),
            )
        )
        rows, attempts, executions = loaded.rows
        state = next((streams.StreamExecution(*row) for row in executions), None)
        if state is None:
            return None
        attempt = next((streams.AttemptEnd(*row) for row in attempts), None)
        frames = tuple(
            model.StreamFrame(frame_id.frame_id(ts_ms, seq), decode_fields(fields))
            for ts_ms, seq, fields in rows
            if last is None or (ts_ms, seq) <= last
        )
        closed = None if attempt is None else streams.closure(state, attempt)
        return Page(frames, attempt is not None, closed, state.attempt_index, state.ended)


def key_of(execution: ExecutionId, attempt_index: int) -> StreamKey:
    if not isinstance(execution, ExecutionId):
        raise invalid("execution", "an ExecutionId", execution)
    return (
        execution.partition_index,
        execution.uuid,
        validation.whole(attempt_index, "attempt_index", 0, MAX_ATTEMPT_INDEX),
    )


def _count(count_limit: int) -> int:
    if not isinstance(count_limit, int) or isinstance(count_limit, bool) or count_limit < 1:
        raise bad_input("count_limit must be >= 1")
    if count_limit > model.STREAM_READ_HARD_CAP:
        raise bad_input(
            f"count_limit_exceeds_hard_cap: at most {model.STREAM_READ_HARD_CAP}, got {count_limit}"
        )
    return count_limit


def visible(visibility: model.Visibility) -> str:
    if not isinstance(visibility, model.Visibility):
        raise invalid("visibility", "a Visibility", visibility)
    return "frames" if visibility is model.Visibility.All else "kept_frames"
