"""Turns methods of the async SDK into blocking ones, so that each name is declared once, there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from flowfabric.sdk.sync_context import documented, presented
from flowfabric.sync.background import background

__all__ = ["Wrapper", "blocking", "documented", "forwarded", "iterating", "wrapped"]

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


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Wrapper[A], P], T]:
    """The same method; the caller blocks until it has returned."""

    def call(self: Wrapper[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return background.call(method(self.inner, *args, **kwargs))

    return presented(call, method)


def iterating(
    method: Callable[Concatenate[A, P], AsyncIterator[T]],
) -> Callable[Concatenate[Wrapper[A], P], Iterator[T]]:
    """The same method; the caller iterates without `async`."""

    def call(self: Wrapper[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return background.iterate(method(self.inner, *args, **kwargs))

    return presented(call, method)


def forwarded(
    method: Callable[Concatenate[A, P], T],
) -> Callable[Concatenate[Wrapper[A], P], T]:
    """The same method, which is not async there either."""

    def call(self: Wrapper[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self.inner, *args, **kwargs)

    return presented(call, method)


def wrapped(
    method: Callable[Concatenate[A, P], B], kind: Callable[[B], T]
) -> Callable[Concatenate[Wrapper[A], P], T]:
    """The same method, whose result is put into its blocking counterpart."""

    def call(self: Wrapper[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return kind(method(self.inner, *args, **kwargs))

    return presented(call, method)
