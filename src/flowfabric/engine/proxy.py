"""Something that stands around an engine, and is one to whoever uses it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric.engine.engine import Engine

Operation = Callable[..., Awaitable[Any]]
Wrap = Callable[[str, Operation], Operation | None]


class Proxy:
    """Has all that an engine has; what `wrap` wants is called through it. Calls an engine makes of itself are not seen."""

    def __init__(self, engine: Engine, wrap: Wrap) -> None:
        self._inner, self._wrap = engine, wrap

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":
            raise AttributeError(name)  # a copy that is being made
        found = getattr(self._inner, name)
        if name.startswith("_") or not callable(found):
            return found
        wrapped = self._wrap(name, found)
        if wrapped is None:
            return found
        self.__dict__[name] = wrapped
        return wrapped

    async def __aenter__(self) -> Proxy:
        await self._inner.prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._inner.close()
