"""Many runs of one task, submitted at once."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric import App, Engine
from flowfabric.engine.executions.bulk_create import checked_runs

from .helpers import worked_off


async def test_submitted_executions_differ_in_id_and_input_only(
    app: App, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    asked = await app.engine()
    honest = asked.create_executions

    async def noted(many: Any, **said: Any) -> Any:
        given.extend(many)
        return await honest(many, **said)

    monkeypatch.setattr(asked, "create_executions", noted)

    @app.task
    async def work(n: int) -> int:
        return n

    await work.submit_many(range(5), delay="1h", deadline="2h", tags={"app.a": "b"}, priority=3)
    (run,) = checked_runs(given)
    assert (len(run.others), run.first.priority, run.first.tags["app.a"]) == (4, 3, "b")
    assert (
        len({each.execution_id for each in given})
        == len({each.input_payload for each in given})
        == 5
    )


async def test_submit_many_takes_tuples_dicts_and_single_arguments(
    app: App, engine: Engine
) -> None:
    @app.task
    async def add(a: int, b: int = 0) -> int:
        return a + b

    assert await add.submit_many([]) == []
    runs = await add.submit_many([1, (2, 3), {"a": 4, "b": 5}])
    assert await worked_off(app) == 3
    assert [await run.result() for run in runs] == [1, 5, 9]
