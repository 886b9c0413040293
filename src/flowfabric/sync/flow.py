"""Graphs of tasks, submitted from a thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from flowfabric.sdk import flow as aio
from flowfabric.sdk.task import Task as AsyncTask
from flowfabric.sync.background import background
from flowfabric.sync.run import Run
from flowfabric.sync.task import Task, unwrapped


class Node(Run[Any]):
    """A run to be. As an argument of another it stands for its result."""

    inner: aio.Node


def any_of(*nodes: Node, cancel_rest: bool = True) -> aio.Group:
    """The first that succeeds is enough. As an argument: the results of those that have succeeded by then, in this order."""
    return aio.any_of(*_plain(nodes), cancel_rest=cancel_rest)


def race(*nodes: Node, cancel_rest: bool = True) -> aio.Group:
    """As `any_of`. As an argument: the result of the one that succeeded first."""
    return aio.race(*_plain(nodes), cancel_rest=cancel_rest)


def quorum(k: int, *nodes: Node, cancel_rest: bool = True) -> aio.Group:
    """So many of them are enough. As an argument: the results of those that have succeeded by then, in this order."""
    return aio.quorum(k, *_plain(nodes), cancel_rest=cancel_rest)


def all_of(*nodes: Node) -> aio.Group:
    """All must succeed. As an argument: their results, in this order."""
    return aio.all_of(*_plain(nodes))


class FlowBuilder:
    """Collects nodes; leaving the block submits them together. `flow.id` is the flow's id."""

    def __init__(self, inner: aio.FlowBuilder) -> None:
        self.inner, self.id, self.name = inner, inner.id, inner.name

    def __enter__(self) -> FlowBuilder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.submit()

    def add(
        self,
        task: Task[..., Any] | AsyncTask[..., Any],
        *args: Any,
        after: Node | aio.Group | Iterable[Node] = (),
        **kwargs: Any,
    ) -> Node:
        """A node that runs once what it comes after has succeeded, nodes among its arguments included."""
        given = [_plain(value) for value in args]
        named = {name: _plain(value) for name, value in kwargs.items()}
        earlier = (
            after
            if isinstance(after, aio.Group)
            else _plain(after if isinstance(after, Node) else list(after))
        )
        return Node(self.inner.add(unwrapped(task), *given, after=earlier, **named))

    def submit(self) -> UUID:
        """All of it or nothing."""
        return background.call(self.inner.submit())


def _plain(value: Any) -> Any:
    """A node as the flow underneath knows it, also in a list."""
    if isinstance(value, Node):
        return value.inner
    if isinstance(value, list | tuple) and any(isinstance(item, Node) for item in value):
        return [_plain(item) for item in value]
    return value
