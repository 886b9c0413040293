"""A task whose submissions block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic

from flowfabric.sdk.task import P, R
from flowfabric.sdk.task import Task as AsyncTask
from flowfabric.sync.background import background
from flowfabric.sync.bridge import Wrapper, documented, forwarded
from flowfabric.sync.run import Run


class Task(Wrapper[AsyncTask[P, R]], Generic[P, R]):
    """A declared task, as `flowfabric.Task`, whose calls block. Calling it calls the function."""

    def __init__(self, inner: AsyncTask[P, R]) -> None:
        super().__init__(inner)
        self.__doc__, self.__name__ = inner.__doc__, inner.__name__
        self.__wrapped__ = inner.function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.inner(*args, **kwargs)

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.inner.name

    @property
    def lane(self) -> str:
        """The lane its runs wait in, unless `submit(lane=...)` names another one."""
        return self.inner.lane

    @documented(AsyncTask.submit)
    def submit(self, *args: Any, **kwargs: Any) -> Run[R]:
        return Run(background.call(self.inner.submit(*args, **kwargs)))

    @documented(AsyncTask.submit_many)
    def submit_many(self, many: Iterable[Any], **options: Any) -> list[Run[R]]:
        return [Run(run) for run in background.call(self.inner.submit_many(many, **options))]

    call = forwarded(AsyncTask.call)


def unwrapped(task: Task[P, R] | AsyncTask[P, R]) -> AsyncTask[P, R]:
    return task.inner if isinstance(task, Task) else task
