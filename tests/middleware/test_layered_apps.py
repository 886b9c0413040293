"""Apps with layers: workers continue when layers refuse calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from flowfabric import (
    App,
    CancelRun,
    CircuitBreakerLayer,
    Context,
    Engine,
    MetricsLayer,
    RateLimitLayer,
    Retry,
    Worker,
    log_middleware,
    sync,
)
from flowfabric.errors import ConfigError, EngineError, ValidationError, ValidationKind
from flowfabric.middleware import Layer, Ok, with_layers
from flowfabric.remote import transport
from flowfabric.remote.engine import RemoteEngine
from flowfabric.sdk import retry
from tests.remote.served import Served
from tests.sdk.helpers import impatient, until, worked_off

from .helpers import Hands, Noted, Written


async def test_layers_see_the_calls_of_an_app(memory: Engine) -> None:
    sink, said = Written(), list[str]()
    app = App("memory://", engine=memory, layers=[MetricsLayer(sink), Noted("outer", said)])

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async with app, Worker(app):
        assert await (await double.submit(4)).result() == 8
    methods = {method for method, _, outcome in sink.calls if outcome == Ok()}
    assert {"register_worker", "create_execution", "claim_many", "complete_many"} <= methods
    assert said[0].startswith("outer before")


async def test_the_engine_of_the_thread_that_renews_has_them_too(tmp_path: Path) -> None:
    sink, done = Written(), asyncio.Event()
    app = App(f"sqlite:///{tmp_path}/ff.db", layers=[MetricsLayer(sink)])

    @app.task
    async def long() -> None:
        await done.wait()

    async with app, Worker(app, lease="300ms"):
        run = await long.submit()
        await until(lambda: sum(method == "renew" for method, _, _ in sink.calls) >= 2)
        done.set()
        await run.result()


async def test_around_a_server(memory: Engine) -> None:
    sink, served = Written(), Served(memory)
    app = App(
        "memory://", engine=cast(Engine, served), layers=[CircuitBreakerLayer(), MetricsLayer(sink)]
    )

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    try:
        async with app:
            run = await double.submit(4)
            await worked_off(app)
            assert await run.result(timeout="10s") == 8
    finally:
        await served.end()
    assert {"create_execution", "claim_many", "complete_many"} <= {
        method for method, _, _ in sink.calls
    }


async def test_the_breaker_opens_for_an_unreachable_server(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_TRIES", 1)
    sink = Written()
    away = cast(Engine, RemoteEngine("http://127.0.0.1:1"))
    engine = with_layers(away, MetricsLayer(sink), CircuitBreakerLayer(threshold=1, clock=hands))
    for said in ("cannot be reached", "circuit open"):
        with pytest.raises(EngineError, match=said):
            await engine.ping()
    assert len(sink.calls) == 1
    await engine.close()


HELD_BACK = object()


def only(*methods: str) -> Callable[[str], str]:
    return lambda method: "limited" if method in methods else "free"


def stuck(method: str) -> RateLimitLayer:
    """The clock does not move, and the only token is taken."""
    limit = RateLimitLayer(classifier=only(method), buckets={"limited": 1}, clock=lambda: 0.0)
    limit.before(method)
    return limit


@pytest.mark.parametrize(
    ("method", "state"), [("complete_many", "active"), ("record_step", "delayed")]
)
async def test_a_limit_that_lasts_is_no_fault_of_the_run(
    memory: Engine, monkeypatch: pytest.MonkeyPatch, method: str, state: str
) -> None:
    impatient(monkeypatch)
    app = App("memory://", engine=memory, layers=[stuck(method)])

    @app.task
    async def work(ctx: Context) -> str:
        return await ctx.step("one", lambda: "done")  # type: ignore[no-any-return]

    run = await work.submit()
    await worked_off(app)
    assert await run.state() == state


async def test_a_worker_retries_rate_limited_calls(memory: Engine) -> None:
    hands, asked = Hands(), list[str]()

    class Patient(Layer):
        """Half a second goes by with each claim, so that every other one is held back."""

        def after(self, method: str, elapsed: float, error: BaseException | None) -> None:
            if method == "claim_many":
                asked.append("held back" if isinstance(error, ValidationError) else "asked")
                hands.now += 0.5

    limit = RateLimitLayer(classifier=only("claim_many"), buckets={"limited": 1}, clock=hands)
    app = App("memory://", engine=memory, layers=[limit, Patient()])

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async with app, Worker(app, concurrency=1):
        for n in range(3):
            assert await (await double.submit(n)).result(timeout="20s") == 2 * n
    assert {"held back", "asked"} <= set(asked)


@pytest.mark.parametrize(
    ("error", "away"),
    [(HELD_BACK, True), (ValidationError(ValidationKind.INVALID_INPUT), False)],
    ids=["held back", "refused"],
)
def test_rate_limited_calls_can_be_retried(error: Any, away: bool) -> None:
    if error is HELD_BACK:
        with pytest.raises(ValidationError) as caught:
            stuck("ping").before("ping")
        error = caught.value
    assert (retry.passes(error), retry.is_away(error)) == (away, away)


def test_layers_are_checked_when_the_app_is_made() -> None:
    for make in (App, sync.App):
        with pytest.raises(ConfigError, match="layers: expected objects of a subclass of Layer"):
            make("memory://", layers=[print])


# ---- the log of runs


async def test_runs_are_logged_from_beginning_to_end(
    memory: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("memory://", engine=memory, middleware=[log_middleware])

    @app.task(name="well")
    async def well() -> str:
        return "secret"

    @app.task
    async def ill() -> None:
        raise KeyError("secret")

    @app.task
    async def given_up() -> None:
        raise CancelRun("secret")

    @app.task(retry=Retry(max=1, base="1h"))
    async def again() -> None:
        raise Retry("secret", after="1h")

    @app.task
    async def waiting(ctx: Context) -> None:
        await ctx.sleep("1h")

    with caplog.at_level(logging.INFO, "flowfabric.runs"):
        for task in (well, ill, given_up, again, waiting):
            run = await task.submit()
            await worked_off(app)
            records = [
                vars(record) for record in caplog.records if record.name == "flowfabric.runs"
            ][-2:]
            assert [(each["event"], each["task"], each["execution_id"]) for each in records] == [
                ("task.start", task.name, str(run.id)),
                ("task.end", task.name, str(run.id)),
            ]
    ends = [vars(record) for record in caplog.records if vars(record).get("event") == "task.end"]
    assert [(each["task"], each["end"], each.get("raised")) for each in ends] == [
        ("well", "succeeded", None),
        ("ill", "failed", "KeyError"),
        ("given_up", "cancelled", None),
        ("again", "failed", "Retry"),
        ("waiting", "waits", None),
    ]
    assert all(
        each["elapsed_ms"] >= 0 and each["lane"] == "default" and each["attempt"] == 0
        for each in ends
    )
    assert "secret" not in "".join(
        record.getMessage() for record in caplog.records if record.name == "flowfabric.runs"
    )


async def test_a_stopped_run_is_reported(memory: Engine, caplog: pytest.LogCaptureFixture) -> None:
    app, begun = App("memory://", engine=memory, middleware=[log_middleware]), asyncio.Event()

    @app.task
    async def long() -> None:
        begun.set()
        await asyncio.Event().wait()

    with caplog.at_level(logging.INFO, "flowfabric.runs"):
        async with app:
            worker = Worker(app)
            async with worker:
                await long.submit()
                await begun.wait()
                await worker.stop(grace=0)
    assert [
        vars(record)["end"] for record in caplog.records if vars(record).get("event") == "task.end"
    ] == ["stopped"]
