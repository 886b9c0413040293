"""A worker for programs without an event loop."""

from __future__ import annotations

from typing import Any

from flowfabric.sdk.worker import Worker as AsyncWorker
from flowfabric.sync.app import App
from flowfabric.sync.background import background
from flowfabric.sync.bridge import Wrapper, blocking


class Worker(Wrapper[AsyncWorker]):
    """Runs tasks on a background thread. `with Worker(app): ...` works beside your own code.

    Takes the options of `flowfabric.Worker`. It handles no signals: for a process that only
    runs tasks, use `flowfabric worker app.py`.
    """

    def __init__(self, app: App, **options: Any) -> None:
        super().__init__(AsyncWorker(app.inner, **options))

    @property
    def done(self) -> int:
        """How many executions have ended on this worker."""
        return self.inner.done

    @property
    def running(self) -> int:
        """How many executions are running on this worker."""
        return self.inner.running

    stop = blocking(AsyncWorker.stop)
    run_until_idle = blocking(AsyncWorker.run_until_idle)

    def __enter__(self) -> Worker:
        background.call(self.inner.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
