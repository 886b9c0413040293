"""Public operations: methods of parts under flat names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Binder(Protocol):
    """A kind of engine: how it carries out a named operation."""

    def bind(self, name: str, method: Callable[Concatenate[Any, P], R]) -> Callable[P, R]: ...


class operation(Generic[P, R]):  # noqa: N801
    """Declares the method of a part as an operation. It is bound on first use and then kept on the
    instance.
    """

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self._method = method

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, engine: None, owner: type) -> Callable[Concatenate[Any, P], R]: ...

    @overload
    def __get__(self, engine: Binder, owner: type) -> Callable[P, R]: ...

    def __get__(
        self, engine: Binder | None, owner: type
    ) -> Callable[P, R] | Callable[Concatenate[Any, P], R]:
        if engine is None:
            return self._method
        bound = engine.__dict__[self._name] = engine.bind(self._name, self._method)
        return bound
