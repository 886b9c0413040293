"""The fixtures for tests of tasks: a manual clock, and faults on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from flowfabric import App, Context, Engine, Retry, RunFailed, Worker
from flowfabric.errors import ConfigError, TransportError
from flowfabric.testing.faults import Faults
from flowfabric.testing.virtual_clock import VirtualClock
from tests.patience import patience
from tests.sdk.helpers import PLAIN


@pytest.fixture
def app() -> App:
    return App("sqlite:///never-opened.db")


@pytest.mark.meets("step", "delay", "suspend", "retry")
async def test_a_month_passes_and_everything_happens_at_its_time(
    app: App, ff_clock: VirtualClock, ff_worker: Callable[..., Worker]
) -> None:
    seen: list[tuple[str, int]] = []
    began = ff_clock.now_ms

    def note(what: str) -> None:
        seen.append((what, (ff_clock.now_ms - began) // 86_400_000))

    @app.task(retry=Retry(max=1, backoff="fixed", base="2d"))
    async def remind(ctx: Context, who: str) -> str:
        await ctx.step("ask", note, "asked")
        await ctx.sleep("7d")
        try:
            await ctx.suspend("answer", timeout="14d")
        except TimeoutError:
            note("nobody answered")
        if seen[-1] == ("nobody answered", 21):
            raise RuntimeError("the mail is down")
        return who

    ff_worker(app)
    run = await remind.submit("ann")
    await ff_clock.advance("6d")
    assert await run.state() == "delayed"
    await ff_clock.advance("17d12h")
    assert await run.result() == "ann"
    assert seen == [("asked", 0), ("nobody answered", 21), ("nobody answered", 23)]


@pytest.mark.meets("crash", "reclaim", "step")
async def test_run_of_a_crashed_worker_continues_elsewhere(
    app: App, ff_clock: VirtualClock, ff_worker: Callable[..., Worker], ff_faults: Faults
) -> None:
    ran: list[str] = []
    stuck = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> int:
        await ctx.step("once", ran.append, "step")
        ran.append("run")
        if len(ran) == 2:
            stuck.set()
            await asyncio.Event().wait()
        return ctx.attempt

    first = ff_worker(app, lease="30s")
    run = await work.submit()
    working = asyncio.create_task(first.run_until_idle())
    await asyncio.wait_for(stuck.wait(), patience(10))
    await ff_faults.crash_worker(first)
    await working
    ff_clock.workers.remove(first)
    assert await run.state() == "active"
    ff_worker(app)
    await ff_clock.advance("1m")
    await run.result()
    assert ran == ["step", "run", "run"]


async def test_lost_answer_is_requested_again(
    app: App,
    ff_clock: VirtualClock,
    ff_worker: Callable[..., Worker],
    ff_faults: Faults,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @app.task
    async def work() -> str:
        return "done"

    ff_worker(app)
    run = await work.submit()
    ff_faults.drop_reply("complete")
    await ff_clock.settle()
    assert await run.result() == "done"


async def test_a_failing_engine_and_a_revoked_lease(
    app: App, ff_clock: VirtualClock, ff_worker: Callable[..., Worker], ff_faults: Faults
) -> None:
    @app.task
    async def work() -> None:
        raise KeyError("no")

    ff_worker(app)
    ff_faults.fail_backend("create_execution")
    with pytest.raises(TransportError, match="was made to fail"):
        await work.submit()
    run = await work.submit()
    await ff_clock.settle()
    with pytest.raises(RunFailed):
        await run.result()
    with pytest.raises(ValueError, match="the engine has no operation"):
        ff_faults.drop_reply("fly")


async def test_ff_app_restores_the_engine_of_the_app(
    app: App, ff_engine: Engine, ff_app: Callable[[App], App]
) -> None:
    assert await ff_app(app).engine() is ff_engine
    assert app.use(None) is ff_engine
    assert app.use(ff_engine) is None


async def test_clock_without_an_engine_raises() -> None:
    with pytest.raises(RuntimeError, match="drives no engine yet"):
        await VirtualClock().settle()
    with pytest.raises(ConfigError):
        await VirtualClock().advance("soon")


def test_the_fixtures_come_with_the_package(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        from flowfabric import App

        app = App("memory://")

        @app.task
        async def double(n: int) -> int:
            return 2 * n

        def test_double(ff_clock, ff_worker):
            async def run():
                ff_worker(app)
                found = await double.submit(21)
                await ff_clock.advance("1s")
                return await found.result()

            assert asyncio.run(run()) == 42
        """
    )
    pytester.runpytest_subprocess(*PLAIN).assert_outcomes(passed=1)
