"""Workers register their tasks over HTTP, and tasks are submitted by name over HTTP."""

from __future__ import annotations

import logging
from typing import cast

import pytest

from flowfabric import App, Engine, Worker, memory_engine
from flowfabric.errors import NotFound, ValidationError
from flowfabric.sdk.exceptions import IdempotencyConflict, UnknownTask
from flowfabric.wire.operations import OPERATIONS
from tests.remote.served import Served


@pytest.fixture
def app() -> App:
    made = App("memory://", engine=cast(Engine, Served(memory_engine())))
    made.quota("mails", concurrent=1)

    @made.task(quota="mails")
    async def mail(to: str, size: int = 1) -> list[str | int]:
        return [to, size]

    return made


async def test_a_task_is_registered_and_submitted_by_name(app: App) -> None:
    client = App("memory://", engine=app.given_engine)
    async with Worker(app, loops=False):
        mail = client.task_named("mail")
        run = await mail.submit(to="a", key="k")
        assert await run.result() == ["a", 1]
        with pytest.raises(ValidationError, match=r"arguments\.size: integer"):
            await mail.submit(to="a", size="x")
        with pytest.raises(IdempotencyConflict):
            await mail.submit(to="b", key="k")
        with pytest.raises(UnknownTask, match="registered: mail"):
            await client.task_named("mial").submit()
        engine = await app.engine()
        (line,) = (await engine.list_tasks()).items
        assert (line.name, line.quota, line.workers) == ("mail", "mails", 1)
        with pytest.raises(NotFound):
            await engine.attach_limit("quota", app.budget_id("none"), "task", "mail")
    assert await engine.forget_task("default", "mail") is True


async def test_a_worker_starts_at_a_server_without_the_operation(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As at a server of an older release: the path does not exist."""
    from flowfabric.server import routes

    path = "/v1/engine/register_tasks"
    older = tuple(route for route in routes.ROUTES if route.path != path)
    assert len(older) < len(routes.ROUTES) and "register_tasks" in OPERATIONS
    monkeypatch.setattr("flowfabric.server.app.ROUTES", older)
    with caplog.at_level(logging.WARNING):
        async with Worker(app, loops=False):
            run = await app.tasks["mail"].submit("a")
            assert await run.result() == ["a", 1]
    assert "cannot be submitted by name" in caplog.text
