"""The time up to which the subscriber has received every event, so that no execution is removed
before its events were received.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from flowfabric import Engine
from flowfabric.codec.event_cursor import decode_cursor
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS

from .subscriber import saved_cursor

CHANNELS = (COMPLETION_EVENTS, LEASE_EVENTS)
MOST_MARKS = 1_000


class Heard:
    """Records the newest event at intervals; once the saved cursors have passed it, all earlier
    events were received.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = folder
        self._marks: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=MOST_MARKS)
        self._until_ms: int | None = None

    async def age_ms(self, engine: Engine) -> int | None:
        """The maximal age of an event that the subscriber may not have received; None when
        unknown.
        """
        now = await engine.server_time_ms()
        self._marks.append(
            (now, tuple([await engine.store.last_event(channel) for channel in CHANNELS]))
        )
        saved = [
            decode_cursor(saved_cursor(self._folder, channel), "heard") or 0 for channel in CHANNELS
        ]
        while self._marks and all(
            at >= newest for at, newest in zip(saved, self._marks[0][1], strict=True)
        ):
            self._until_ms = self._marks.popleft()[0]
        return None if self._until_ms is None else now - self._until_ms
