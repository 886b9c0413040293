"""A blocking handle to a submitted run."""

from __future__ import annotations

from typing import Generic, TypeVar

from flowfabric.ids import ExecutionId
from flowfabric.sdk.run import Run as AsyncRun
from flowfabric.sync.bridge import Wrapper, blocking, iterating

R = TypeVar("R")


class Run(Wrapper[AsyncRun[R]], Generic[R]):
    """A handle to a submitted run, as `flowfabric.Run`, whose calls block."""

    @property
    def id(self) -> ExecutionId:
        """The id of the run."""
        return self.inner.id

    result = blocking(AsyncRun.result)
    outcome = blocking(AsyncRun.outcome)
    state = blocking(AsyncRun.state)
    cancel = blocking(AsyncRun.cancel)
    replay = blocking(AsyncRun.replay)
    why = blocking(AsyncRun.why)
    history = iterating(AsyncRun.history)
    stream = iterating(AsyncRun.stream)
    waitpoints = blocking(AsyncRun.waitpoints)
    signal = blocking(AsyncRun.signal)
