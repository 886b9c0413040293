"""Calling what users wrote: here if it is async, in a thread if not."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any


async def called(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """An async function here, any other in a thread: it may block."""
    if is_async(function):
        found = function(*args, **kwargs)
    else:
        found = await asyncio.to_thread(whole, function, args, kwargs)
    return await found if inspect.isawaitable(found) else found


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        inspect.unwrap(function)
    )


def submitted(
    pool: Executor, function: Callable[..., Any], kwargs: Mapping[str, Any]
) -> Future[Any]:
    """In a thread, with the context variables of the caller."""
    return pool.submit(contextvars.copy_context().run, partial(whole, function, (), kwargs))


def whole(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    try:
        return function(*args, **kwargs)
    except StopIteration as error:  # no future can carry it, and whoever waits would wait for ever
        raise RuntimeError(
            f"{getattr(function, '__name__', function)} raised StopIteration"
        ) from error
