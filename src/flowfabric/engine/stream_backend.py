"""The documented protocol, the part about output streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Handle
from flowfabric.model.stream import (
    AppendOutcome,
    Frame,
    StreamFrame,
    StreamFrames,
    SummaryDocument,
    Visibility,
)


class StreamBackend(Protocol):
    async def append_frame(self, handle: Handle, frame: Frame) -> AppendOutcome:
        """Adds a frame to the stream of the attempt. It is written when this returns, and only while the lease holds."""

    async def append_frames(self, handle: Handle, frames: Sequence[Frame]) -> list[AppendOutcome]:
        """Several frames with consecutive ids, all or none."""

    async def read_stream(
        self,
        execution: ExecutionId,
        attempt_index: int,
        from_: str = "start",
        to: str = "end",
        count_limit: int = 100,
        visibility: Visibility = Visibility.All,
    ) -> StreamFrames:
        """Frames of a range, both ends included, and whether the stream has ended. Of an unknown stream there are none."""

    async def tail_stream(
        self,
        execution: ExecutionId,
        attempt_index: int,
        after: str = "0-0",
        block_ms: int = 0,
        count_limit: int = 100,
        visibility: Visibility = Visibility.All,
    ) -> StreamFrames:
        """Frames behind a cursor; if there are none, waits for some, or for the end, at most so long. No connection is held."""

    def follow_stream(
        self,
        execution: ExecutionId,
        attempt_index: int = 0,
        after: str = "0-0",
        visibility: Visibility = Visibility.All,
        *,
        later_attempts: bool = True,
    ) -> AsyncIterator[tuple[int, StreamFrame]]:
        """Each frame with the index of its attempt, until there can be no more: the execution has ended, or the attempt has.

        To go on after a break, give the attempt and the id of the last frame seen.
        """

    async def read_summary(
        self, execution: ExecutionId, attempt_index: int
    ) -> SummaryDocument | None:
        """The document the summary frames of an attempt have made so far."""

    # ---- for loops

    async def forget_live_frames(self, limit: int = 1_000) -> int:
        """Drops best-effort frames past their time; how many."""
