"""The conformance suite of stores. It needs pytest, and nothing else that runs async tests.

from flowfabric.testing.conformance import *

@pytest.fixture
def store(clock):
    return MyStore(clock)

Each case gets a new and empty store. It runs on an event loop of its own, between the store's
`prepare()` and `close()`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from flowfabric.store.port import Store
from flowfabric.testing.clock import ManualClock

Case = Callable[..., Coroutine[Any, Any, None]]
"""A coroutine function that takes fixtures, `store` among them."""

CASE_TIMEOUT_S = 60.0

_TOPICS = (
    "commit",
    "commit_and_sweep",
    "conditions",
    "deletes_and_events",
    "find",
    "later_steps",
    "load",
    "many",
    "neighbours",
    "stored_values",
    "sweep",
    "values",
    "wakeups",
)


def _cases(topics: Iterable[ModuleType]) -> dict[str, Case]:
    found: dict[str, Case] = {}
    for topic in topics:
        for name, case in vars(topic).items():
            if name.startswith("test_"):
                assert name not in found, f"{name} is the name of two cases"
                found[name] = case
    return found


def _as_test(case: Case) -> Callable[..., None]:
    @functools.wraps(case)  # pytest reads the fixtures and the marks of the case
    def test(store: Store, **fixtures: object) -> None:
        asyncio.run(_run(case, store, fixtures))

    return test


async def _run(case: Case, store: Store, fixtures: Mapping[str, object]) -> None:
    async with asyncio.timeout(CASE_TIMEOUT_S):
        await store.prepare()
        try:
            await case(store=store, **fixtures)
        finally:
            await store.close()


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the store. It stands still until a case moves it."""
    return ManualClock()


pytest.register_assert_rewrite(*(f"{__name__}.{topic}" for topic in (*_TOPICS, "helpers")))

CASES: Mapping[str, Case] = _cases(import_module(f"{__name__}.{topic}") for topic in _TOPICS)
"""The cases as coroutine functions, for a test module that runs them in its own way."""

globals().update({name: _as_test(case) for name, case in CASES.items()})

__all__ = ["clock", *CASES]  # noqa: PLE0604 - the names of the cases are texts
