"""Repeats engine calls: which errors pass after a while, and which never do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from flowfabric.errors import (
    Contention,
    ContentionKind,
    EngineError,
    NotFound,
    StateError,
    StateKind,
    TimedOut,
    TransportError,
    ValidationError,
)

T = TypeVar("T")

TRIES = 8
FIRST_PAUSE_S, LAST_PAUSE_S = 0.05, 2.0
_GONE = frozenset({ContentionKind.LEASE_CONFLICT, ContentionKind.EXECUTION_NOT_ACTIVE})
_OVER = frozenset(
    {
        StateKind.STALE_LEASE,
        StateKind.LEASE_EXPIRED,
        StateKind.LEASE_REVOKED,
        StateKind.TERMINAL,
        StateKind.ALREADY_SUSPENDED,
    }
)


def is_lost(error: EngineError) -> bool:
    """Whether the error says that the lease is no longer held."""
    if isinstance(error, Contention):
        return error.kind in _GONE
    if isinstance(error, StateError):
        return error.kind in _OVER
    return isinstance(error, NotFound) and error.entity == "execution"


def passes(error: EngineError) -> bool:
    """Whether the error is about the state of the store, not about the request."""
    return (error.retryable or isinstance(error, TimedOut)) and not is_lost(error)


def is_away(error: EngineError) -> bool:
    """Whether the store is out of reach, or a rate limit refuses calls: not the task's fault."""
    return isinstance(error, TransportError | TimedOut | ValidationError) and passes(error)


async def persist(ask: Callable[[], Awaitable[T]], *, twice: bool = True) -> T:
    """Repeats the call for a few seconds while the store is away or busy.

    `twice` states that the call may be repeated after an unknown outcome.
    """
    pause = FIRST_PAUSE_S
    for _ in range(TRIES - 1):
        try:
            return await ask()
        except EngineError as error:
            doubtful = isinstance(error, TimedOut) or (
                isinstance(error, TransportError) and error.doubtful
            )
            if not passes(error) or (doubtful and not twice):
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 2, LAST_PAUSE_S)
    return await ask()
