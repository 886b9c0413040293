"""The operations of output streams twice: the call of the engine, and the expectation of the
specification.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model import stream as model
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.stream import (
    MAX_TAIL_BLOCK_MS,
    AppendOutcome,
    BestEffortLive,
    Frame,
    Visibility,
)

from .bench import LANES, Bench, Mismatch
from .ops import Op, as_json
from .shapes import Held, Policy
from .stream_spec import (
    CAP,
    PATCH_CAP,
    PATCH_SLACK,
    SLACK,
    Name,
    Place,
    Streams,
    stream_differences,
)

POLICY = Policy(max_retries=2, first_ms=0, losses=1_000)
PATIENCE_S = 4.0
"""Less than the net below the wake-ups: who is not woken is noticed."""
FIRST: Place = (0, 0)
BOUNDS = {"DURABLE_SLACK": SLACK, "SUMMARY_CAP": PATCH_CAP, "SUMMARY_SLACK": PATCH_SLACK}
T = TypeVar("T")


class StreamBench(Bench):
    """With small bounds, so that few frames exceed them; and with followers that have seen
    everything after every call.
    """

    spec: Streams

    def __init__(self, kind: str) -> None:
        self._bounds = {name: getattr(model, name) for name in BOUNDS}
        for name, value in BOUNDS.items():
            setattr(model, name, value)
        self.followers: list[Follower] = []
        super().__init__(kind, Streams)

    def close(self) -> None:
        try:
            for follower in self.followers:
                self.run(follower.leave())
            super().close()
        finally:
            for name, value in self._bounds.items():
                setattr(model, name, value)

    def do(self, op: Op) -> Any:
        answer = super().do(op)
        self.spec.note_ends()
        for follower in self.followers:
            follower.expect(self.spec)
            problem = self.run(follower.catch_up())
            if problem:
                self._fail(f"{follower} after {op.name}", [problem])
        self._let_go_of_the_ended()
        return answer

    def compare(self, name: str | None = None, answer: Any = None, tables: Any = None) -> None:
        super().compare(name, answer, tables)
        problems = stream_differences(self.spec, self.world, self.tables)
        if problems:
            self._fail(name or "the stored rows", problems)

    def follow(self, follower: Follower) -> None:
        self.story.append(f"{follower} begins")
        follower.begin(self.engine, self.loop)
        self.followers.append(follower)
        follower.seen_before(self.spec)
        problem = self.run(follower.catch_up())
        if problem:
            self._fail(str(follower), [problem])
        self._let_go_of_the_ended()

    def _let_go_of_the_ended(self) -> None:
        self.followers = [follower for follower in self.followers if not follower.ended]

    def reopen(self) -> None:
        """Followers lose their connection and continue after their last frame."""
        for follower in self.followers:
            self.run(follower.leave())
        super().reopen()
        for follower in self.followers:
            follower.begin(self.engine, self.loop)


class Follower:
    """Follows a stream in the background; the expected frames are known after every call."""

    def __init__(self, name: Name, after: Place, kept_only: bool, later: bool) -> None:
        self.ident, self.attempt = name
        self.after, self.kept_only, self.later = after, kept_only, later
        self.seen: list[tuple[int, str]] = []
        self.wanted: list[tuple[int, str]] = []
        self.read = 0
        self.ends = self.ended = False
        self.task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return (
            f"follower of {self.attempt} behind "
            f"{self.after}{' kept' if self.kept_only else ''}{' on' if self.later else ''}"
        )

    def begin(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        self.task = loop.create_task(self._follow(engine))

    async def leave(self) -> None:
        assert self.task is not None
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, EngineError):
            await self.task

    async def _follow(self, engine: Engine) -> None:
        attempt, after = self.seen[-1] if self.seen else (self.attempt, "{}-{}".format(*self.after))
        shown = Visibility.ExcludeBestEffort if self.kept_only else Visibility.All
        async for index, frame in engine.follow_stream(
            self.ident, attempt, after, shown, later_attempts=self.later
        ):
            self.seen.append((index, frame.id))

    def seen_before(self, spec: Streams) -> None:
        """The frames that exist at its start."""
        self.read = len(spec.log)
        last = len(spec.execs[self.ident].attempts) if self.later else self.attempt + 1
        for index in range(self.attempt, last):
            after = self.after if index == self.attempt else (-1, 0)
            self.wanted += [
                (index, w.id)
                for w in spec.kept((self.ident, index), self.kept_only)
                if w.place > after
            ]
        self.ends = self._is_over(spec)

    def expect(self, spec: Streams) -> None:
        """The frames written since. An ended follower does not resume."""
        fresh, self.read = spec.log[self.read :], len(spec.log)
        for (ident, index), written in fresh:
            behind = (
                written.place > self.after
                if index == self.attempt
                else self.later and index > self.attempt
            )
            if (
                ident == self.ident
                and behind
                and not (self.kept_only and isinstance(written.frame.mode, BestEffortLive))
            ):
                self.wanted.append((index, written.id))
        self.ends = self._is_over(spec)

    def _is_over(self, spec: Streams) -> bool:
        return self.ident not in spec.execs or spec.is_over((self.ident, self.attempt), self.later)

    async def catch_up(self) -> str:
        """None, or the difference."""
        assert self.task is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while len(self.seen) < len(self.wanted) or (self.ends and not self.task.done()):
                    if self.task.done() and len(self.seen) < len(self.wanted):
                        break
                    await asyncio.sleep(0)
        self.ended = self.task.done()
        if self.ended and not self.task.cancelled() and self.task.exception() is not None:
            return f"it broke off: {self.task.exception()!r}"
        if self.seen != self.wanted:
            return f"specified {self.wanted}, seen {self.seen}"
        return (
            ""
            if self.ended == self.ends
            else f"specified to {'end' if self.ends else 'go on'}, and it did not"
        )


def create(ident: ExecutionId) -> Op:
    said = {**(as_json(POLICY) or {}), "stream_policy": {"retention_maxlen": CAP}}
    args = CreateExecutionArgs(
        execution_id=ident, lane_id=LANES[0], policy=said, tags={"cairn.instance_id": "default"}
    )
    return Op(
        "create",
        lambda e: e.create_execution(args),
        lambda s: s.create(ident, LANES[0], "default", 0, "", POLICY, None),
    )


def append(h: Held, frames: Sequence[Frame]) -> Op:
    async def call(engine: Engine) -> list[AppendOutcome]:
        if len(frames) == 1:
            return [await engine.append_frame(h.handle, frames[0])]
        return await engine.append_frames(h.handle, frames)

    shown = [(frame.mode.wire, frame.bytes, frame.seq) for frame in frames]
    return Op(f"append {shown} by {h.index}/{h.epoch}", call, lambda s: s.append(h, frames))


def append_at_once(h: Held, frames: Sequence[Frame]) -> Op:
    """Each by a call of its own; they are written in the order of the calls."""

    async def call(engine: Engine) -> list[AppendOutcome]:
        found = await asyncio.gather(
            *(engine.append_frame(h.handle, frame) for frame in frames), return_exceptions=True
        )
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return list(found)  # type: ignore[arg-type]

    return Op(
        f"append {len(frames)} at once by {h.index}/{h.epoch}", call, lambda s: s.append(h, frames)
    )


def read(name: Name, low: Place | None, high: Place | None, count: int, kept_only: bool) -> Op:
    from_ = "start" if low is None else "{}-{}".format(*low)
    to = "end" if high is None else "{}-{}".format(*high)
    shown = _shown(kept_only)
    return Op(
        f"read {name[1]} {from_} {to} {count}",
        lambda e: e.read_stream(*name, from_, to, count, shown),
        lambda s: s.page(name, low or (-1, 0), high or (2**63, 0), count, kept_only),
    )


def tail(name: Name, after: Place, count: int, kept_only: bool) -> Op:
    """Does not block when there would be nothing to wait for."""
    waits = False

    def expect(spec: Any) -> Any:
        nonlocal waits
        found = spec.tail(name, after, count, kept_only)
        waits = bool(found.frames) or found.closed
        return found

    async def call(engine: Engine) -> Any:
        block = MAX_TAIL_BLOCK_MS if waits else 0
        return await in_time(
            engine.tail_stream(*name, "{}-{}".format(*after), block, count, _shown(kept_only))
        )

    return Op(f"tail {name[1]} {after} {count}", call, expect)


async def in_time(work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await work
    except TimeoutError:
        raise Mismatch("waited although there was nothing to wait for") from None


def summary(name: Name) -> Op:
    return Op(f"summary {name[1]}", lambda e: e.read_summary(*name), lambda s: s.summary(name))


def forget() -> Op:
    return Op("forget live frames", lambda e: e.forget_live_frames(), lambda s: s.forget())


def _shown(kept_only: bool) -> Visibility:
    return Visibility.ExcludeBestEffort if kept_only else Visibility.All
