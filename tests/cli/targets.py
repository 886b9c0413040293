"""A store with executions in known states, and the ways in which commands name it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest
from msgspec import Struct

from flowfabric import ClaimPolicy, CreateExecutionArgs, Engine, ExecutionId
from flowfabric.connect import PostgresBackend, SqliteBackend
from flowfabric.model.attempt import FailureClass, FailureReason
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.server.lifecycle import serve
from tests.postgres import database
from tests.remote.served import TOKEN, settings

on_every_target = pytest.mark.parametrize("kind", ["sqlite", "postgres", "server"])
MADE_AT = 1_700_000_000_000
POLICY = ClaimPolicy("w", "w-1", 60_000)


class Target(Struct, frozen=True):
    """`env` names the store, as FF_URL and FF_TOKEN do."""

    engine: Engine
    env: dict[str, str]


def ident(n: int) -> ExecutionId:
    """Ids whose first eight digits differ, and that sort by number."""
    return ExecutionId.solo("default", UUID(f"{n:08x}-0000-7000-8000-000000000000"))


@asynccontextmanager
async def target(
    kind: str, folder: Path, name: str = "cli", *, loops: bool = True
) -> AsyncIterator[Target]:
    if kind == "postgres":
        url = database(name)
        engine = await PostgresBackend.connect(url, migrate=True)
    else:
        url = str(folder / "ff.db")
        engine = await SqliteBackend.new(url, dev=True)
        await engine.prepare()
    try:
        if kind != "server":
            yield Target(engine, {"FF_URL": url})
            return
        if loops:
            engine.with_scanners()
        async with serve(engine, settings()) as address:
            yield Target(engine, {"FF_URL": address, "FF_TOKEN": TOKEN})
    finally:
        await engine.shutdown_prepare()
        await engine.close()


async def create(engine: Engine, n: int, **said: object) -> ExecutionId:
    await engine.create_execution(
        CreateExecutionArgs(
            execution_id=ident(n),
            **{"execution_kind": "mail", "now": MADE_AT + n, **said},  # type: ignore[arg-type]
        )
    )
    return ident(n)


async def fill(engine: Engine) -> None:
    """1 completed, 2 failed, 3 cancelled, 4 delayed, 5 and 6 waiting, 6 on another lane."""
    for n in (1, 2):
        await create(engine, n, tags={"app.shop": f"s{n}"})
    for _ in range(2):
        handle = await engine.claim("default", (), POLICY)
        assert handle is not None
        if engine.fields(handle).execution_id == ident(1):
            await engine.complete(handle, b'{"sent": 3}')
        else:
            reason = FailureReason("ConnectionError: refused", b"ConnectionError")
            await engine.fail(handle, reason, FailureClass.PERMANENT)
    await create(engine, 3)
    await engine.cancel_execution(CancelExecutionArgs(execution_id=ident(3), reason="not needed"))
    await create(engine, 4, delay_until=4_000_000_000_000)
    await create(engine, 5, execution_kind="render")
    await create(engine, 6, lane_id="video", namespace="shop")


def normal(text: str) -> str:
    """Without times, and without the spaces that align them."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "TIME", text)
    text = re.sub(r"\b(in )?\d+ (ms|s|min|h|d)\b( ago)?", "SPAN", text)
    return re.sub(r"[ ]{2,}", "  ", text)
