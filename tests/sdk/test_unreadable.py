"""A worker continues after unreadable rows and unexpected errors, and reports completions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from flowfabric import App, Engine, RunFailed, Worker
from flowfabric.errors import EngineError
from tests.engine.helpers import state
from tests.engine.test_quarantine import TORN, TORN_LIST, damage, in_sql

from .helpers import impatient, until


@in_sql
@pytest.mark.parametrize("column", ["tags", "policy", "required_capabilities"])
async def test_damaged_row_does_not_stop_the_worker(engine: Engine, column: str) -> None:
    app = App("memory://", engine=engine)

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    runs = [await double.submit(n) for n in range(5)]
    await damage(
        engine, runs[2].id, **{column: TORN_LIST if column == "required_capabilities" else TORN}
    )
    async with Worker(app, loops=False):
        assert [await run.result() for at, run in enumerate(runs) if at != 2] == [0, 2, 6, 8]
        assert await (await double.submit(9)).result() == 18
    if column != "required_capabilities":
        assert await state(engine, runs[2].id) == "OPBLOCK"


# ---- ends


async def test_completions_are_repeated_after_an_unexpected_error(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    real, calls = memory.complete_many, 0

    async def broken(many: Sequence[Any]) -> Sequence[EngineError | None]:
        nonlocal calls
        calls += 1
        if calls <= 2:
            raise KeyError("a row that cannot be read")
        return await real(many)

    monkeypatch.setattr(memory, "complete_many", broken)

    @app.task
    async def work(n: int) -> int:
        return n

    async with Worker(app, loops=False):
        runs = await work.submit_many([1, 2, 3])
        assert [await run.result() for run in runs] == [1, 2, 3]
    assert calls > 2


async def test_failing_completion_does_not_hold_up_others(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    impatient(monkeypatch)
    real = memory.complete_many
    gate = asyncio.Event()

    async def broken(many: Sequence[Any]) -> Sequence[EngineError | None]:
        if any(b"13" in (result or b"") for _, result in many):
            raise ValueError("not this one")
        return await real(many)

    monkeypatch.setattr(memory, "complete_many", broken)

    @app.task
    async def work(n: int) -> int:
        await gate.wait()
        return n

    async with Worker(app, loops=False, concurrency=8) as worker:
        runs = [await work.submit(n) for n in (1, 13, 3)]
        await until(lambda: worker.running == 3)
        gate.set()
        assert [await runs[0].result(), await runs[2].result()] == [1, 3]
    assert await runs[1].state() == "active"  # its lease runs out, and it is run again
    assert any(
        "the outcome of a run was refused" in record.getMessage() for record in caplog.records
    )


async def test_missing_answers_of_a_batch_are_requested_again(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    real, calls = memory.complete_many, 0

    async def short(many: Sequence[Any]) -> Sequence[EngineError | None]:
        nonlocal calls
        calls += 1
        return (await real(many))[: 0 if calls == 1 else None]

    monkeypatch.setattr(memory, "complete_many", short)
    task = app.task(name="work")(lambda: "done")
    async with Worker(app, loops=False):
        assert await (await task.submit()).result() == "done"
    assert calls == 2


async def test_report_of_a_failure_is_repeated_after_an_error(
    app: App, memory: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    real, calls = memory.fail, 0

    async def broken(*said: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise RuntimeError("in between")
        return await real(*said, **more)

    monkeypatch.setattr(memory, "fail", broken)

    @app.task
    async def work() -> None:
        raise LookupError("nothing there")

    async with Worker(app, loops=False):
        run = await work.submit()
        with pytest.raises(RunFailed, match="nothing there"):
            await run.result()
    assert calls == 3
