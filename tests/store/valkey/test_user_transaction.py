"""A caller's own transaction is refused with what to do, and nothing is stored."""

from __future__ import annotations

import pytest

from flowfabric import App, CreateExecutionArgs, Engine, ExecutionId
from flowfabric.errors import Unavailable
from flowfabric.model.search import ExecutionFilter

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
REFUSED = "connection: only Postgres takes work into your own transaction"


async def test_the_engine_refuses_a_connection(engine: Engine) -> None:
    args = CreateExecutionArgs(execution_id=ExecutionId.solo("default"), lane_id="default")
    with pytest.raises(Unavailable, match=REFUSED):
        await engine.create_execution(args, connection=object())
    with pytest.raises(Unavailable, match=REFUSED):
        await engine.create_executions([args], connection=object())
    assert (await engine.find_executions(ExecutionFilter())).items == []


async def test_a_task_refuses_a_connection(engine: Engine) -> None:
    app = App("memory://", engine=engine)

    @app.task
    async def greet(name: str) -> str:
        return name

    with pytest.raises(Unavailable, match=REFUSED):
        await greet.submit("Ann", connection=object())
    with pytest.raises(Unavailable, match=REFUSED):
        await greet.submit_many(["Ann"], connection=object())
    assert (await engine.find_executions(ExecutionFilter())).items == []
