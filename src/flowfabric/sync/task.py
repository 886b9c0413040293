"""A task, submitted from a thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic

from flowfabric.sdk.children import Call
from flowfabric.sdk.task import P, R
from flowfabric.sdk.task import Task as AsyncTask
from flowfabric.sync.background import background
from flowfabric.sync.run import Run


class Task(Generic[P, R]):
    """Called, it is the plain function. Submitted, it is run by a worker."""

    def __init__(self, inner: AsyncTask[P, R]) -> None:
        self.inner = inner
        self.__doc__, self.__name__, self.__wrapped__ = (
            inner.__doc__,
            inner.__name__,
            inner.function,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.inner(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def lane(self) -> str:
        return self.inner.lane

    def submit(self, *args: Any, **kwargs: Any) -> Run[R]:
        """With `key`, the same submission again is the same run; the other options are those of `flowfabric.Task.submit`."""
        return Run(background.call(self.inner.submit(*args, **kwargs)))

    def submit_many(self, many: Iterable[Any], **options: Any) -> list[Run[R]]:
        """One run for each: a tuple of arguments, a dict of them by name, or the only one."""
        return [Run(each) for each in background.call(self.inner.submit_many(many, **options))]

    def call(self, *args: Any, **kwargs: Any) -> Call:
        """The task with its arguments, for `ctx.children(...)`."""
        return self.inner.call(*args, **kwargs)


def unwrapped(task: Task[P, R] | AsyncTask[P, R]) -> AsyncTask[P, R]:
    return task.inner if isinstance(task, Task) else task
