"""Public operations: methods of parts under flat names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", contravariant=True)


class Binder(Protocol):
    """A kind of engine: how it carries out a named operation."""

    def bind(self, name: str, method: Callable[Concatenate[S, P], R]) -> Callable[P, R]: ...


class operation(Generic[S, P, R]):  # noqa: N801
    """Declares the method of a part as an operation, bound at its first use by an instance."""

    def __init__(self, method: Callable[Concatenate[S, P], R]) -> None:
        # an abstract method as the value would leave the class abstract
        is_abstract = getattr(method, "__isabstractmethod__", False)
        self._method = partial(method) if is_abstract else method

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, engine: None, owner: type) -> Callable[Concatenate[S, P], R]: ...

    @overload
    def __get__(self, engine: Binder, owner: type) -> Callable[P, R]: ...

    def __get__(
        self, engine: Binder | None, owner: type
    ) -> Callable[P, R] | Callable[Concatenate[S, P], R]:
        if engine is None:
            return self._method
        bound = engine.__dict__[self._name] = engine.bind(self._name, self._method)
        return bound
