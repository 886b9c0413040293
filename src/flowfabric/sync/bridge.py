"""Turns methods of the async SDK into blocking ones, so that each name is declared once, there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Concatenate, Generic, ParamSpec, TypeVar

from flowfabric.sdk.sync_context import presented
from flowfabric.sync.background import background

A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")
T = TypeVar("T")


class Wrapper(Generic[A]):
    """Holds the async object that does the work, as `inner`."""

    def __init__(self, inner: A) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return repr(self.inner)


def wrapped(
    method: Callable[Concatenate[A, P], B], answer: Callable[[B], T]
) -> Callable[Concatenate[Wrapper[A], P], T]:
    """The same method of the async object, whose answer is passed through `answer`."""

    def call(self: Wrapper[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return answer(method(self.inner, *args, **kwargs))

    return presented(call, method)


def forwarded(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[Wrapper[A], P], T]:
    """The same method, which is not async there either."""
    return wrapped(method, lambda answer: answer)


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[object, object, T]],
) -> Callable[Concatenate[Wrapper[A], P], T]:
    """The same method; the caller blocks until it has returned."""
    return wrapped(method, background.call)


def iterating(
    method: Callable[Concatenate[A, P], AsyncIterator[T]],
) -> Callable[Concatenate[Wrapper[A], P], Iterator[T]]:
    """The same method; the caller iterates without `async`."""
    return wrapped(method, background.iterate)
