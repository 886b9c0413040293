"""Flows declared and submitted by blocking code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flowfabric.sdk import flow as aio
from flowfabric.sdk.task import Task as AsyncTask
from flowfabric.sync.bridge import Wrapper, blocking, documented
from flowfabric.sync.run import Run
from flowfabric.sync.task import Task, unwrapped


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
        task: Task[..., Any] | AsyncTask[..., Any],
        *args: Any,
        after: Node | aio.Group | Iterable[Node] = (),
        **kwargs: Any,
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
