"""A worker for a program without an event loop."""

from __future__ import annotations

from typing import Any

from flowfabric.sdk.durations import Span
from flowfabric.sdk.worker import Worker as AsyncWorker
from flowfabric.sync.app import App
from flowfabric.sync.background import background


class Worker:
    """`with Worker(app): ...` works beside your own code. What it takes is said at `flowfabric.Worker`.

    To do nothing else, `flowfabric worker app.py` is the better program: it listens to signals.
    """

    def __init__(self, app: App, **options: Any) -> None:
        self.inner = AsyncWorker(app.inner, **options)

    @property
    def done(self) -> int:
        return self.inner.done

    @property
    def running(self) -> int:
        return self.inner.running

    def __enter__(self) -> Worker:
        background.call(self.inner.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, grace: Span | None = None) -> None:
        background.call(self.inner.stop(grace))

    def run_until_idle(self) -> int:
        """Works off what there is, and what comes of it, and returns how many were run."""
        return background.call(self.inner.run_until_idle())
