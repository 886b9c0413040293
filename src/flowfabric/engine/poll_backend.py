"""The documented protocol, the part about waiting in turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flowfabric.ids import ExecutionId
from flowfabric.model.event import Channel, EventPage, ScannerFilter
from flowfabric.model.execution import ExecutionOutcome
from flowfabric.model.stream import FollowedPage, Visibility


class PollBackend(Protocol):
    async def wait_for_work(
        self,
        lanes: Sequence[str],
        seen: int | None = None,
        wait_ms: int = 0,
        namespace: str | None = "default",
    ) -> int:
        """How often there may have been new work in these lanes, as soon as that is not `seen` any more, or the time is up."""

    async def wait_for_outcome(
        self, execution: ExecutionId, wait_ms: int = 0
    ) -> ExecutionOutcome | None:
        """How an execution stands, as soon as it has ended, or when the time is up. None if there is no such execution."""

    async def read_events(
        self,
        channel: Channel,
        cursor: bytes = b"",
        limit: int = 100,
        wait_ms: int = 0,
        wanted: ScannerFilter | None = None,
    ) -> EventPage:
        """Events behind a cursor, waiting for the first of them at most so long. An empty cursor stands for now."""

    async def read_followed(
        self,
        execution: ExecutionId,
        attempt_index: int = 0,
        after: str = "0-0",
        visibility: Visibility = Visibility.All,
        later_attempts: bool = True,
        block_ms: int = 0,
    ) -> FollowedPage:
        """The next frames of a stream that is followed, and where it goes on: the same attempt, a later one, or nowhere."""
