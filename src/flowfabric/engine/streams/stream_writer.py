"""Writing to output streams: whatever came in for a stream while its last append was under way goes together in the next."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from flowfabric.errors import Contention, ContentionKind, ResourceExhausted, ValidationError
from flowfabric.model.lease import HandleFields
from flowfabric.model.policy import stored_policy
from flowfabric.model.stream import (
    DURABLE_CAP,
    MAX_BATCH_BYTES,
    MAX_BATCH_FRAMES,
    AppendOutcome,
    DurableSummary,
    Frame,
    StreamMeta,
)
from flowfabric.plan import Answer, Applied, Refused
from flowfabric.rules.decision import Snapshot
from flowfabric.rules.streams import stream_forms, streams
from flowfabric.rules.streams.streams import Appended, Bound, Stream, Summary
from flowfabric.store.port import Get, GetAll, Read, Scan, Store

MAX_PENS = 4_000
MAX_WAITING = 10_000
MAX_TRIES = 20
MOST_PAUSE_S = 0.05
MAX_TRIMMED = 1_000
MAX_TOGETHER = 500
_WRITTEN = ("client_seq", "ts_ms", "seq", "number", "fields")
Look = Callable[[HandleFields], Awaitable[Snapshot]]
Key = tuple[int, Any, int]


class _Job(Struct, gc=False):
    handle: HandleFields
    frames: Sequence[Frame]
    now: int
    answer: asyncio.Future[list[AppendOutcome]]


class StreamWriter:
    """One stream. What is known of it is what the last append left; a refusal or a lost answer means to read it again."""

    __slots__ = ("_look", "_post", "_store", "busy", "key", "stream", "waiting")

    def __init__(self, key: Key, store: Store, look: Look, post: _Post) -> None:
        self.key, self._store, self._look, self._post = key, store, look, post
        self.stream: Stream | None = None
        self.waiting: deque[_Job] = deque()
        self.busy = False

    def write(self, job: _Job) -> None:
        self.waiting.append(job)
        if not self.busy:
            self._go_on()

    def _go_on(self) -> None:
        """The next append, straight away where all there is to know is known; otherwise after a look."""
        jobs = self._next()
        self.busy = bool(jobs)
        if not jobs:
            return
        stream = self.stream
        frames = [frame for job in jobs for frame in job.frames]
        if stream is None or _needs_a_look(stream, frames):
            self._apart(jobs)
            return
        try:
            made = streams.append(stream, jobs[0].handle, frames, jobs[-1].now)
        except Exception:
            self._apart(jobs)  # one of them is at fault, and each is told on its own
            return
        self._post.send(self, jobs, made)

    def _next(self) -> list[_Job]:
        """As many as one append can carry, of one lease."""
        jobs: list[_Job] = []
        count = size = 0
        while self.waiting:
            job = self.waiting[0]
            count += len(job.frames)
            size += sum(len(frame.bytes) for frame in job.frames)
            if jobs and (
                count > MAX_BATCH_FRAMES or size > MAX_BATCH_BYTES or job.handle != jobs[0].handle
            ):
                break
            self.waiting.popleft()
            if not job.answer.done():
                jobs.append(job)
        return jobs

    def answered(self, answer: Answer | BaseException, jobs: list[_Job], made: Appended) -> None:
        if isinstance(answer, Applied):
            self.stream = made.stream
            _answer(jobs, made.outcomes)
        else:
            self.stream = None
            if isinstance(answer, Refused):
                self._apart(jobs)
                return
            _refuse(jobs, answer)
        self._go_on()

    def _apart(self, jobs: list[_Job]) -> None:
        self._post.watch(asyncio.ensure_future(self._carefully(jobs)))

    async def _carefully(self, jobs: list[_Job]) -> None:
        """Each on its own: read, decide, commit, again if the stream moved in between."""
        try:
            for job in jobs:
                if job.answer.done():
                    continue  # nobody waits for it any more
                try:
                    outcomes = await self._one(job)
                except BaseException as error:
                    self.stream = None
                    _refuse([job], error)
                    if not isinstance(error, Exception):
                        raise
                else:
                    _answer([job], outcomes)
        finally:
            _refuse(jobs, asyncio.CancelledError())
            self._go_on()

    async def _one(self, job: _Job) -> list[AppendOutcome]:
        for attempt in range(MAX_TRIES):
            if attempt:  # others write here too, and each refusal means that one of them got on
                await asyncio.sleep(random.random() * min(0.001 * 2**attempt, MOST_PAUSE_S))  # noqa: S311 - no secret
            try:
                outcomes = await self._tried(job)
            except ValidationError:
                await self._check_lease(
                    job
                )  # who holds no lease is told that, and not what else is wrong
                raise
            if outcomes is not None:
                return outcomes
            self.stream = None
            await self._check_lease(job)
        raise Contention(ContentionKind.RETRY_EXHAUSTED)

    async def _tried(self, job: _Job) -> list[AppendOutcome] | None:
        """None where something moved in between: the stream, or the lease."""
        known = {}
        if self.stream is None or _needs_a_look(self.stream, job.frames):
            known = await self._read(job)
        new = [frame for frame in job.frames if frame.seq not in known]
        if not new:
            return [known[frame.seq] for frame in job.frames]
        assert self.stream is not None
        made = streams.append(self.stream, job.handle, new, job.now, await self._bound(self.stream))
        if not isinstance(await self._store.commit(made.plan), Applied):
            return None
        self.stream = made.stream
        fresh = iter(made.outcomes)
        return [known[frame.seq] if frame.seq in known else next(fresh) for frame in job.frames]

    async def _check_lease(self, job: _Job) -> None:
        refused = streams.refusal(await self._look(job.handle), job.handle)
        if refused is not None:
            raise refused

    async def _bound(self, stream: Stream) -> Bound | None:
        """Up to where old frames go, when it is time for that."""
        over = streams.frames_over_cap(stream)
        if not over:
            return None
        read = Scan(
            "durable_frames",
            self._group,
            limit=min(over, MAX_TRIMMED),
            columns=("ts_ms", "mode_number"),
        )
        rows = (await self._store.load((read,))).rows[0]
        return Bound(*rows[-1]) if rows else None

    @property
    def _group(self) -> dict[str, Any]:
        return dict(zip(("partition_key", "execution_id", "attempt_index"), self.key, strict=True))

    async def _read(self, job: _Job) -> dict[int | None, AppendOutcome]:
        """The stream as it is, with its document where that is patched; and what was written under the callers' numbers."""
        patches = any(type(frame.mode) is DurableSummary for frame in job.frames)
        reads: list[Read] = [
            Get(stream_forms.META, self.key),
            Get("ff_exec_core", self.key[:2], ("policy",)),
            GetAll(
                stream_forms.SUMMARY, [self.key] if patches else [], ("document_json", "version")
            ),
        ]
        reads += [
            Scan("frames_by_caller", self._group, (frame.seq - 1,), frame.seq, 1, _WRITTEN)
            for frame in job.frames
            if frame.seq is not None
        ]
        (meta, policy, summary, *written) = (await self._store.load(reads)).rows
        self.stream = Stream(
            StreamMeta(*meta[0]) if meta else None,
            (streams.stored_summary(*summary[0]) if summary else Summary({}, 0))
            if patches
            else None,
            _cap(policy[0][0] if policy else None),
        )
        return {
            row[0]: streams.outcome_of_stored(job.handle, *row[1:])
            for rows in written
            for row in rows
        }


class _Post:
    """What many streams have to write in one turn of the event loop is sent together: that is cheaper than each on its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._outgoing: list[tuple[StreamWriter, list[_Job], Appended]] = []
        self.under_way: set[asyncio.Future[Any]] = set()

    def watch(
        self, future: asyncio.Future[Any], then: Callable[[asyncio.Future[Any]], None] | None = None
    ) -> None:
        self.under_way.add(future)
        future.add_done_callback(self.under_way.discard)
        if then is not None:
            future.add_done_callback(then)

    def send(self, pen: StreamWriter, jobs: list[_Job], made: Appended) -> None:
        self._outgoing.append((pen, jobs, made))
        if len(self._outgoing) == 1:
            asyncio.get_running_loop().call_soon(self._sent)
        elif len(self._outgoing) == MAX_TOGETHER:
            self._sent()

    def _sent(self) -> None:
        going, self._outgoing = self._outgoing, []
        if going:
            sent = self._store.commit_many([made.plan for _, _, made in going])
            self.watch(asyncio.ensure_future(sent), lambda done: _told(done, going))


def _told(
    sent: asyncio.Future[list[Answer]], going: list[tuple[StreamWriter, list[_Job], Appended]]
) -> None:
    lost = asyncio.CancelledError() if sent.cancelled() else sent.exception()
    answers: Sequence[Any] = sent.result() if lost is None else [lost] * len(going)
    for (pen, jobs, made), answer in zip(going, answers, strict=True):
        pen.answered(answer, jobs, made)


class StreamWriters:
    """One for each stream that is being written to."""

    def __init__(self, store: Store, look: Look) -> None:
        self._store, self._look = store, look
        self._pens: dict[Key, StreamWriter] = {}
        self._post = _Post(store)

    def write(
        self, handle: HandleFields, frames: Sequence[Frame], now: int
    ) -> asyncio.Future[list[AppendOutcome]]:
        key = (handle.execution_id.partition_index, handle.execution_id.uuid, handle.attempt_index)
        pen = self._pens.get(key)
        if pen is None:
            self._make_room()
            pen = self._pens[key] = StreamWriter(key, self._store, self._look, self._post)
        if len(pen.waiting) >= MAX_WAITING:
            raise ResourceExhausted("appends to one stream that wait", MAX_WAITING)
        job = _Job(handle, frames, now, asyncio.get_running_loop().create_future())
        pen.write(job)
        return job.answer

    def _make_room(self) -> None:
        """What is known of a stream is only at hand: the oldest that rests is let go."""
        if len(self._pens) >= MAX_PENS:
            resting = next((key for key, pen in self._pens.items() if not pen.busy), None)
            if resting is not None:
                del self._pens[resting]

    async def finish(self) -> None:
        """Waits for what was accepted."""
        await asyncio.sleep(0)
        while self._post.under_way:
            await asyncio.wait(tuple(self._post.under_way))


def _needs_a_look(stream: Stream, frames: Sequence[Frame]) -> bool:
    """Frames to be written once only, a document that is not at hand, or old frames that have to go."""
    if streams.frames_over_cap(stream):
        return True
    return any(
        frame.seq is not None or (stream.summary is None and type(frame.mode) is DurableSummary)
        for frame in frames
    )


def _cap(policy: str | None) -> int:
    stated = stored_policy(policy)
    return stated.stream_policy.retention_maxlen if stated and stated.stream_policy else DURABLE_CAP


def _answer(jobs: Sequence[_Job], outcomes: list[AppendOutcome]) -> None:
    at = 0
    for job in jobs:
        if not job.answer.done():
            job.answer.set_result(outcomes[at : at + len(job.frames)])
        at += len(job.frames)


def _refuse(jobs: Sequence[_Job], error: BaseException) -> None:
    for job in jobs:
        if job.answer.done():
            continue
        if isinstance(error, asyncio.CancelledError):
            job.answer.cancel()
        else:
            job.answer.set_exception(error)
