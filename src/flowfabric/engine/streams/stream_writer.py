"""Appends to output streams.

Appends to a stream that come while another is in flight share the next commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from uuid import UUID

from msgspec import Struct

from flowfabric.engine import retry
from flowfabric.engine.batcher import Batch, Batcher
from flowfabric.engine.core import Core
from flowfabric.engine.snapshots import load_rows
from flowfabric.errors import Corruption, ResourceExhausted, ValidationError
from flowfabric.model import stream as model
from flowfabric.model.lease import HandleFields
from flowfabric.model.policy import stored_policy
from flowfabric.plan import Answer, Applied, Plan
from flowfabric.rules.streams import stream_forms, streams
from flowfabric.rules.streams.streams import Appended, Bound, Stream, Summary
from flowfabric.store.port import Get, GetAll, Read, Row, Scan, Store

MAX_STREAMS = 4_000
MAX_WAITING = 10_000
MAX_TRIMMED = 1_000
MAX_PLANS = 500
_WRITTEN = ("client_seq", "ts_ms", "seq", "number", "fields")
StreamKey = tuple[int, UUID, int]
Outcomes = list[model.AppendOutcome]
Written = dict[int | None, model.AppendOutcome]


class _Append(Struct, gc=False):
    handle: HandleFields
    frames: Sequence[model.Frame]
    now: int


class _OpenStream:
    """A stream that is written to, and its state after the last append if that is known."""

    __slots__ = ("key", "stream")

    def __init__(self, key: StreamKey) -> None:
        self.key = key
        self.stream: Stream | None = None

    @property
    def columns(self) -> dict[str, object]:
        return dict(zip(("partition_key", "execution_id", "attempt_index"), self.key, strict=True))


_Batch = Batch[_OpenStream, _Append, Outcomes]


class StreamWriter:
    def __init__(self, core: Core) -> None:
        self._core, self._store = core, core.store
        self._open: dict[StreamKey, _OpenStream] = {}
        self._commits = _CommitGroup(core.store)
        self._appends: Batcher[_OpenStream, _Append, Outcomes] = Batcher(
            self._append, model.MAX_BATCH_FRAMES, fitting=_fitting, fast=self._append_known
        )

    def write(
        self, handle: HandleFields, frames: Sequence[model.Frame], now: int
    ) -> asyncio.Future[Outcomes]:
        key = (*handle.execution_id.key, handle.attempt_index)
        target = self._open.get(key)
        if target is None:
            self._make_room()
            target = self._open[key] = _OpenStream(key)
        if self._appends.backlog(target) >= MAX_WAITING:
            raise ResourceExhausted("appends to one stream that wait", MAX_WAITING)
        return self._appends.submit(target, _Append(handle, frames, now))

    @property
    def known_streams(self) -> int:
        """The number of streams whose state is in memory."""
        return len(self._open)

    async def finish(self) -> None:
        """Waits until every accepted append has an answer."""
        await self._appends.finish()

    def _make_room(self) -> None:
        """Forgets the oldest stream without an append in flight; its state can be read again."""
        if len(self._open) >= MAX_STREAMS:
            idle = (key for key, each in self._open.items() if self._appends.is_idle(each))
            oldest = next(idle, None)
            if oldest is not None:
                del self._open[oldest]

    # ---- streams whose state is known

    def _append_known(self, batch: _Batch) -> bool:
        """Sends the appends as one plan, without a read or a task; False if they need more."""
        stream, append = batch.key.stream, _joined(batch.items)
        if stream is None or _needs_read(stream, append.frames):
            return False
        try:
            made = streams.append(stream, append.handle, append.frames, append.now)
        except Exception:
            return False  # an append is invalid, and `_append` finds out which
        self._commits.send(made.plan, partial(self._committed, batch, made))
        return True

    def _committed(self, batch: _Batch, made: Appended, answer: Answer | BaseException) -> None:
        if isinstance(answer, Applied):
            batch.key.stream = made.stream
            batch.answer(_split(made.outcomes, batch.items))
            return
        batch.key.stream = None
        if isinstance(answer, BaseException):
            batch.fail(answer)
        else:
            self._appends.run(batch)

    # ---- reading first, and trying again

    async def _append(
        self, target: _OpenStream, appends: list[_Append]
    ) -> Sequence[Outcomes | BaseException]:
        try:
            return _split(await self._retried(target, _joined(appends)), appends)
        except (ValidationError, Corruption):
            if len(appends) == 1:
                raise
        return [await self._alone(target, append) for append in appends]

    async def _alone(self, target: _OpenStream, append: _Append) -> Outcomes | Exception:
        """An invalid append does not fail the others of its batch."""
        try:
            return await self._retried(target, append)
        except Exception as error:
            return error

    async def _retried(self, target: _OpenStream, append: _Append) -> Outcomes:
        """Appends again after a refusal by another writer of the stream, while the lease holds."""
        for tries in count(1):
            try:
                outcomes = await self._tried(target, append)
            except ValidationError:
                await self._check_lease(append.handle)  # a lost lease takes precedence
                raise
            if outcomes is not None:
                return outcomes
            await self._check_lease(append.handle)
            await retry.pause(retry.OTHER_WRITER, tries)
        raise AssertionError("the last pause raises")

    async def _tried(self, target: _OpenStream, append: _Append) -> Outcomes | None:
        """None when the stream or the lease has changed in between."""
        stream, target.stream = target.stream, None
        written: Written = {}
        if stream is None or _needs_read(stream, append.frames):
            stream, written = await self._read(target, append)
        new = [frame for frame in append.frames if frame.seq not in written]
        if not new:
            target.stream = stream
            return [written[frame.seq] for frame in append.frames]
        made = streams.append(
            stream, append.handle, new, append.now, await self._bound(target, stream)
        )
        if not isinstance(await self._store.commit(made.plan), Applied):
            return None
        target.stream = made.stream
        fresh = iter(made.outcomes)
        return [written.get(frame.seq) or next(fresh) for frame in append.frames]

    async def _check_lease(self, handle: HandleFields) -> None:
        snapshot, _ = await self._core.snapshots.held(handle)
        refused = streams.refusal(snapshot, handle)
        if refused is not None:
            raise refused

    async def _bound(self, target: _OpenStream, stream: Stream) -> Bound | None:
        """The last of the durable frames that the next append removes, when it is time for that."""
        over = streams.frames_over_cap(stream)
        if not over:
            return None
        columns = ("ts_ms", "mode_number")
        size = min(over, MAX_TRIMMED)
        read = Scan("durable_frames", target.columns, limit=size, columns=columns)
        rows = await load_rows(self._store, read)
        return Bound(*rows[-1]) if rows else None

    async def _read(self, target: _OpenStream, append: _Append) -> tuple[Stream, Written]:
        """The stream, its document if that is patched, and the numbered frames that it has."""
        patches = any(type(frame.mode) is model.DurableSummary for frame in append.frames)
        reads: list[Read] = [
            Get(stream_forms.META, target.key),
            Get("ff_exec_core", target.key[:2], ("policy",)),
            GetAll(
                stream_forms.SUMMARY, [target.key] if patches else [], ("document_json", "version")
            ),
        ]
        reads += [
            Scan("frames_by_caller", target.columns, (frame.seq - 1,), frame.seq, 1, _WRITTEN)
            for frame in append.frames
            if frame.seq is not None
        ]
        (meta, policy, summary, *written) = (await self._store.load(reads)).rows
        stream = Stream(
            next((model.StreamMeta(*row) for row in meta), None),
            _summary(summary) if patches else None,
            _cap(policy),
        )
        return stream, {
            seq: streams.outcome_of_stored(append.handle, *row)
            for rows in written
            for seq, *row in rows
        }


class _CommitGroup:
    """Commits the plans of one turn of the event loop together, which costs less than one by one.

    It calls back instead of setting futures: a future per plan doubles the cost of an append.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._plans: list[Plan] = []
        self._answered: list[Callable[[Answer | BaseException], None]] = []
        self._in_flight: set[asyncio.Future[list[Answer]]] = set()

    def send(self, plan: Plan, answered: Callable[[Answer | BaseException], None]) -> None:
        self._plans.append(plan)
        self._answered.append(answered)
        if len(self._plans) == 1:
            asyncio.get_running_loop().call_soon(self._commit)
        elif len(self._plans) == MAX_PLANS:
            self._commit()

    def _commit(self) -> None:
        plans, answered = self._plans, self._answered
        self._plans, self._answered = [], []
        if plans:
            commit = asyncio.ensure_future(self._store.commit_many(plans))
            self._in_flight.add(commit)
            commit.add_done_callback(partial(self._ended, answered))

    def _ended(
        self,
        answered: list[Callable[[Answer | BaseException], None]],
        commit: asyncio.Future[list[Answer]],
    ) -> None:
        self._in_flight.discard(commit)
        lost = asyncio.CancelledError() if commit.cancelled() else commit.exception()
        answers: Sequence[Answer | BaseException]
        answers = commit.result() if lost is None else [lost] * len(answered)
        for call, answer in zip(answered, answers, strict=True):
            call(answer)


def _joined(appends: Sequence[_Append]) -> _Append:
    """The appends of one lease as one."""
    if len(appends) == 1:
        return appends[0]
    frames = [frame for append in appends for frame in append.frames]
    return _Append(appends[0].handle, frames, appends[-1].now)


def _split(outcomes: Outcomes, appends: Sequence[_Append]) -> list[Outcomes]:
    """The outcomes of each append."""
    if len(appends) == 1:
        return [outcomes]
    rest = iter(outcomes)
    return [[next(rest) for _ in append.frames] for append in appends]


def _needs_read(stream: Stream, frames: Sequence[model.Frame]) -> bool:
    """For numbered frames, for an unknown document, and when old frames are to be removed."""
    if streams.frames_over_cap(stream):
        return True
    return any(
        frame.seq is not None
        or (stream.summary is None and type(frame.mode) is model.DurableSummary)
        for frame in frames
    )


def _fitting(appends: Sequence[_Append]) -> int:
    """One commit takes the appends of one lease.

    An append with numbered frames goes alone: the one before it may contain the same frames.
    """
    first = appends[0]
    count = size = 0
    for at, append in enumerate(appends):
        count += len(append.frames)
        size += sum(len(frame.bytes) for frame in append.frames)
        if (
            count > model.MAX_BATCH_FRAMES
            or size > model.MAX_BATCH_BYTES
            or append.handle != first.handle
            or any(frame.seq is not None for frame in append.frames)
        ):
            return at
    return len(appends)


def _summary(rows: list[Row]) -> Summary:
    return next((streams.stored_summary(*row) for row in rows), Summary({}, 0))


def _cap(rows: list[Row]) -> int:
    """The number of durable frames that the policy of the execution keeps."""
    stated = next((stored_policy(policy) for (policy,) in rows), None)
    return (
        stated.stream_policy.retention_maxlen
        if stated and stated.stream_policy
        else model.DURABLE_CAP
    )
