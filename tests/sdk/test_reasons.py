"""The reason of a run's end, for its caller and in `why`: the cause, not an older error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric import (
    App,
    ClaimPolicy,
    CreateExecutionArgs,
    Engine,
    ExecutionId,
    Fatal,
    Retry,
    RunCancelled,
    RunExpired,
    RunFailed,
    Why,
    Worker,
)
from flowfabric.engine.background import LoopSettings
from flowfabric.loops.timers import DelayedPromoter
from flowfabric.model.state import ExpirePhase
from flowfabric.testing import ManualClock
from tests.patience import patient

from .helpers import worked_off

OLD = "the line is busy"


@pytest.fixture
def app(engine: Engine) -> App:
    return App("memory://", engine=engine)


class Calls:
    """The first attempt fails; the second does what is chosen."""

    def __init__(self, app: App) -> None:
        self.then: BaseException | None = None

        @app.task(retry=Retry(max=1, backoff="fixed", base="1m"), timeout="30s")
        async def again() -> str:
            self.tries += 1
            if self.tries == 1:
                raise ConnectionError(OLD)
            if self.then is not None:
                raise self.then
            return "done"

        self.tries = 0
        self.again = again


async def second_try(app: App, engine: Engine, clock: ManualClock) -> None:
    clock.advance(60_000)
    await DelayedPromoter(LoopSettings()).run(engine)


@pytest.fixture
def calls(app: App) -> Calls:
    return Calls(app)


@pytest.mark.meets("retry", "deadline")
@pytest.mark.meets("retry", "timeout")
@pytest.mark.parametrize("limit", ["attempt_timeout", "execution_deadline"])
async def test_reason_of_an_expired_run_is_the_timeout(
    app: App, engine: Engine, clock: ManualClock, calls: Calls, limit: str
) -> None:
    run = await calls.again.submit(deadline="2m")
    await worked_off(app)
    await second_try(app, engine, clock)
    worker = Worker(app, lease="10m")
    assert await engine.claim_many(
        "default", worker.capabilities, ClaimPolicy("w", "w-1", 600_000), 1
    )
    clock.advance(31_000 if limit == "attempt_timeout" else 60_000)
    await engine.expire_execution(run.id, ExpirePhase(limit))
    with pytest.raises(RunExpired, match=f": {limit}$"):
        await run.result("5s")
    assert f": {limit}" in (await run.why()).reasons[0].says


@pytest.mark.meets("retry", "cancel")
@pytest.mark.parametrize("reason", ["", "not needed"])
async def test_cancelled_run_has_its_reason(
    app: App, engine: Engine, clock: ManualClock, calls: Calls, reason: str
) -> None:
    run = await calls.again.submit()
    await worked_off(app)
    await run.cancel(reason)
    with pytest.raises(RunCancelled, match=f": {reason or 'cancelled'}$"):
        await run.result("5s")


async def test_the_last_error_is_the_reason_of_a_failure(
    app: App, engine: Engine, clock: ManualClock, calls: Calls
) -> None:
    calls.then = Fatal("no such number")
    run = await calls.again.submit()
    await worked_off(app)
    await second_try(app, engine, clock)
    await worked_off(app)
    with pytest.raises(RunFailed, match=r": Fatal: no such number$"):
        await run.result("5s")
    assert "Fatal: no such number" in (await run.why()).reasons[0].says


async def test_success_has_no_reason_of_an_earlier_failure(
    app: App, engine: Engine, clock: ManualClock, calls: Calls
) -> None:
    run = await calls.again.submit()
    await worked_off(app)
    assert OLD in (await run.why()).reasons[0].says
    await second_try(app, engine, clock)
    await worked_off(app)
    (reason,) = (await run.why()).reasons
    assert reason.says.startswith("it completed ") and ":" not in reason.says
    found: Any = reason.facts
    assert (found.outcome, found.reason) == ("success", "")


async def test_why_names_a_task_that_no_worker_has(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    @app.task
    async def greet() -> None: ...

    ident = ExecutionId.solo("default")
    await engine.create_execution(
        CreateExecutionArgs(execution_id=ident, lane_id="default", execution_kind="gret")
    )
    run = app.run(ident)
    async with patient(30), Worker(app, loops=False):
        while await run.state() != "delayed":  # noqa: ASYNC110 - the worker tells nobody that it hands something back
            await asyncio.sleep(0.01)
        found = (await run.why()).reasons
    assert [reason.code for reason in found] == [
        Why.WAITING_FOR_CAPABLE_WORKER,
        Why.WAITING_FOR_DELAY,
    ]
    assert found[0].says == "no live worker on lane `default` has a task `gret`; they have `greet`"
