"""Tasks, runs and flows of blocking code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.sdk import flow as aio
from flowfabric.sdk.flow_handle import Flow as AsyncFlow
from flowfabric.sdk.named_task import NamedTask as AsyncNamedTask
from flowfabric.sdk.run import Run as AsyncRun
from flowfabric.sdk.run_info import RunFields
from flowfabric.sdk.run_info import RunInfo as AsyncRunInfo
from flowfabric.sdk.sync_context import documented
from flowfabric.sdk.task import P, R
from flowfabric.sdk.task import Task as AsyncTask
from flowfabric.sync.background import background
from flowfabric.sync.bridge import Wrapper, blocking, forwarded, iterating


class RunInfo(RunFields, frozen=True, kw_only=True):
    """One run of a listing. `run` is the handle to it."""

    run: Run[Any]

    @classmethod
    def read(cls, found: AsyncRunInfo) -> RunInfo:
        fields = {name: getattr(found, name) for name in RunFields.__struct_fields__}
        return cls(**fields, run=Run(found.run))


class Run(Wrapper[AsyncRun[R]], Generic[R]):
    """A handle to a submitted run, as `flowfabric.Run`, whose calls block."""

    def __str__(self) -> str:
        return str(self.inner)

    @property
    def id(self) -> ExecutionId:
        """The full id. A handle made from a uuid knows it after the first call."""
        return self.inner.id

    result = blocking(AsyncRun.result)
    outcome = blocking(AsyncRun.outcome)
    state = blocking(AsyncRun.state)
    resolve = blocking(AsyncRun.resolve)
    progress = blocking(AsyncRun.progress)

    @documented(AsyncRun.info)
    def info(self) -> RunInfo:
        return RunInfo.read(background.call(self.inner.info()))

    cancel = blocking(AsyncRun.cancel)
    replay = blocking(AsyncRun.replay)
    restart = blocking(AsyncRun.restart)
    move = blocking(AsyncRun.move)
    release = blocking(AsyncRun.release)
    delete = blocking(AsyncRun.delete)
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

    @documented(AsyncNamedTask.submit_many)
    def submit_many(
        self, many: Iterable[Mapping[str, object]], /, **options: object
    ) -> list[Run[Any]]:
        return [Run(run) for run in background.call(self.inner.submit_many(many, **options))]


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


class Flow(Wrapper[AsyncFlow]):
    """A handle to a flow, as `flowfabric.Flow`, whose calls block."""

    @property
    def id(self) -> UUID:
        """The id of the flow."""
        return self.inner.id

    describe = blocking(AsyncFlow.describe)
    state = blocking(AsyncFlow.state)
    wait = blocking(AsyncFlow.wait)
    results = blocking(AsyncFlow.results)
    cancel = blocking(AsyncFlow.cancel)

    @documented(AsyncFlow.runs)
    def runs(self) -> Iterator[RunInfo]:
        return map(RunInfo.read, background.iterate(self.inner.runs()))


class FlowBuilder(Flow):
    """Collects nodes and submits them together, as `app.flow(...)` of `flowfabric.App`."""

    inner: aio.FlowBuilder

    @property
    def name(self) -> str:
        """The name of the flow."""
        return self.inner.name

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
        node: str | None = None,
        **kwargs: object,
    ) -> Node:
        given = [_inner(value) for value in args]
        named = {name: _inner(value) for name, value in kwargs.items()}
        earlier = after if isinstance(after, aio.Group | Node) else list(after)
        made = self.inner.add(unwrapped(task), *given, after=_inner(earlier), node=node, **named)
        return Node(made)

    @documented(aio.FlowBuilder.submit)
    def submit(self) -> Flow:
        return Flow(background.call(self.inner.submit()))


def _inner(value: Any) -> Any:
    """The async node of a node, also inside a list; any other value unchanged."""
    if isinstance(value, Node):
        return value.inner
    if isinstance(value, list | tuple) and any(isinstance(item, Node) for item in value):
        return [_inner(item) for item in value]
    return value
