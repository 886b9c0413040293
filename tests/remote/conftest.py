"""Fixtures that end the servers of a test."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Iterable
from typing import Any

import pytest

from flowfabric import App
from tests.conftest import on_one_loop
from tests.remote.served import Served


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }
    asyncio.run(
        on_one_loop(
            _served(pyfuncitem.obj(**wanted), pyfuncitem.funcargs.values()), wanted.values()
        )
    )
    return True


async def _served(test: Coroutine[Any, Any, None], used: Iterable[Any]) -> None:
    try:
        await test
    finally:
        for each in used:
            served = each.given_engine if isinstance(each, App) else each
            if isinstance(served, Served):
                await served.end()
