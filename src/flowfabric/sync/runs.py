"""Tasks, runs and flows of blocking code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic

from flowfabric.ids import ExecutionId
from flowfabric.sdk import flow as aio
from flowfabric.sdk.named_task import NamedTask as AsyncNamedTask
from flowfabric.sdk.run import Run as AsyncRun
from flowfabric.sdk.sync_context import documented
from flowfabric.sdk.task import P, R
from flowfabric.sdk.task import Task as AsyncTask
from flowfabric.sync.background import background
from flowfabric.sync.bridge import Wrapper, blocking, forwarded, iterating


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
    def submit(self, *args: object, **kwargs: object) -> Run[R]:
        return Run(background.call(self.inner.submit(*args, **kwargs)))

    @documented(AsyncTask.submit_many)
    def submit_many(self, many: Iterable[object], **options: object) -> list[Run[R]]:
        return [Run(run) for run in background.call(self.inner.submit_many(many, **options))]

    call = forwarded(AsyncTask.call)


class NamedTask(Wrapper[AsyncNamedTask]):
    """A task that is declared elsewhere, as `flowfabric.App.task_named` returns it."""

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.inner.name

    @documented(AsyncNamedTask.submit)
    def submit(self, /, **arguments: object) -> Run[Any]:
        return Run(background.call(self.inner.submit(**arguments)))


def unwrapped(task: Task[P, R] | AsyncTask[P, R]) -> AsyncTask[P, R]:
    return task.inner if isinstance(task, Task) else task


class Node(Run[Any]):
    """A run of a flow that is not submitted yet, as `flowfabric.Node`."""

    inner: aio.Node


@documented(aio.any_of)
def any_of(*nodes: Node, cancel_rest: bool = True) -> aio.Group:
    return aio.any_of(*_inner(nodes), cancel_rest=cancel_rest)


@documented(aio.race)
def race(*nodes: Node, cancel_rest: bool = True) -> aio.Group:
    return aio.race(*_inner(nodes), cancel_rest=cancel_rest)


@documented(aio.quorum)
def quorum(k: int, *nodes: Node, cancel_rest: bool = True) -> aio.Group:
    return aio.quorum(k, *_inner(nodes), cancel_rest=cancel_rest)


@documented(aio.all_of)
def all_of(*nodes: Node) -> aio.Group:
    return aio.all_of(*_inner(nodes))


class FlowBuilder(Wrapper[aio.FlowBuilder]):
    """Collects nodes and submits them together, as `app.flow(...)` of `flowfabric.App`."""

    def __init__(self, inner: aio.FlowBuilder) -> None:
        super().__init__(inner)
        self.id, self.name = inner.id, inner.name

    def __enter__(self) -> FlowBuilder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.submit()

    @documented(aio.FlowBuilder.add)
    def add(
        self,
        task: Task[..., object] | AsyncTask[..., object],
        *args: object,
        after: Node | aio.Group | Iterable[Node] = (),
        **kwargs: object,
    ) -> Node:
        given = [_inner(value) for value in args]
        named = {name: _inner(value) for name, value in kwargs.items()}
        earlier = after if isinstance(after, aio.Group | Node) else list(after)
        return Node(self.inner.add(unwrapped(task), *given, after=_inner(earlier), **named))

    submit = blocking(aio.FlowBuilder.submit)


def _inner(value: Any) -> Any:
    """The async node of a node, also inside a list; any other value unchanged."""
    if isinstance(value, Node):
        return value.inner
    if isinstance(value, list | tuple) and any(isinstance(item, Node) for item in value):
        return [_inner(item) for item in value]
    return value
