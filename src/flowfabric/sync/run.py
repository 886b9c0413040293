"""One submitted task, for whoever waits in a thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model.execution import ExecutionOutcome
from flowfabric.model.explanation import Explanation
from flowfabric.model.history import HistoryEntry
from flowfabric.model.stream import StreamFrame
from flowfabric.sdk.durations import Span
from flowfabric.sdk.run import Run as AsyncRun
from flowfabric.sync.background import background

R = TypeVar("R")


class Run(Generic[R]):
    """Found again with `app.run(id)`, in any process. What each of these does is said at `flowfabric.Run`."""

    def __init__(self, inner: AsyncRun[R]) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def id(self) -> ExecutionId:
        return self.inner.id

    def result(self, timeout: Span | None = None) -> R:
        return background.call(self.inner.result(timeout))

    def outcome(self) -> ExecutionOutcome:
        return background.call(self.inner.outcome())

    def state(self) -> str:
        return background.call(self.inner.state())

    def cancel(self, reason: str = "") -> None:
        background.call(self.inner.cancel(reason))

    def replay(self) -> None:
        background.call(self.inner.replay())

    def why(self) -> Explanation:
        return background.call(self.inner.why())

    def history(self, *, page: int = 100) -> Iterator[HistoryEntry]:
        return background.iterate(self.inner.history(page=page))

    def stream(
        self, attempt: int = 0, after: str = "0-0", *, live: bool = True
    ) -> Iterator[StreamFrame]:
        return background.iterate(self.inner.stream(attempt, after, live=live))

    def waitpoints(self) -> list[Any]:
        return background.call(self.inner.waitpoints())

    def signal(
        self,
        name: str,
        payload: Any = None,
        *,
        source: str = "",
        waitpoint: UUID | None = None,
        token: str | None = None,
        key: str | None = None,
        comment: str = "",
    ) -> None:
        told = self.inner.signal(
            name, payload, source=source, waitpoint=waitpoint, token=token, key=key, comment=comment
        )
        background.call(told)
