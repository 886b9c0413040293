"""Limits of an app: unknown names, a deploy with other limits, and a budget that suspends."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, cast

import pytest

from flowfabric import App, Budget, BudgetExceeded, Context, Engine, RunFailed, UnknownBudget
from flowfabric.model.budget import HardLimitAction
from flowfabric.remote.engine import RemoteEngine
from flowfabric.sdk.limits import budget_id, quota_id
from flowfabric.server.lifecycle import serve
from flowfabric.testing import ManualClock
from tests.engine.budget_helpers import rows
from tests.remote.served import Served, settings
from tests.server.client import token_of, tokens_file

from .helpers import worked_off

LOG = "flowfabric.limits"


@pytest.fixture(params=["in process", "over http"])
def app(request: pytest.FixtureRequest, engine: Engine) -> App:
    over_http = request.param == "over http"
    return App(
        "memory://", name="shop", engine=cast(Engine, Served(engine)) if over_http else engine
    )


async def ended(app: App) -> None:
    if isinstance(app.given_engine, Served):
        await app.given_engine.end()


def redeployed(app: App) -> App:
    return App("memory://", name="shop", engine=app.given_engine)


async def limits(engine: Engine, name: str = "day") -> dict[str, int]:
    return (await engine.get_budget_status(budget_id("default", name))).hard_limits


# ---- a name nobody made


async def test_unknown_budget_error_lists_the_declared_ones(app: App, engine: Engine) -> None:
    """A retry would not find the budget either."""
    app.budget("night", hard={"tokens": 1})
    app.budget("day", hard={"tokens": 1})
    tries: list[Exception] = []

    @app.task
    async def talk(ctx: Context) -> None:
        try:
            await ctx.spend("dya", tokens=1)
        except Exception as error:
            tries.append(error)
            raise

    run = await talk.submit()
    await worked_off(app)
    with pytest.raises(RunFailed, match="there is no such budget; the app declares day, night"):
        await run.result()
    assert [type(each) for each in tries] == [UnknownBudget] and "task talk: dya:" in str(tries[0])
    assert await rows(engine, "ff_budget_usage") == []
    await ended(app)


async def test_unknown_budget_without_any_declared(app: App, engine: Engine) -> None:
    @app.task
    async def talk(ctx: Context) -> None:
        with pytest.raises(UnknownBudget, match="the app declares none"):
            await ctx.spend("day", tokens=1)

    run = await talk.submit()
    await worked_off(app)
    assert await run.result() is None
    await ended(app)


# ---- a redeploy


async def test_declared_limits_replace_the_stored_ones(
    app: App, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    app.budget("day", hard={"tokens": 10}, resets="1d")
    app.quota("q", requests=5, per="2s", concurrent=3)
    await app.engine()
    with caplog.at_level(logging.INFO, LOG):
        same = redeployed(app)
        same.budget("day", hard={"tokens": 10}, resets="1d")
        same.quota("q", requests=5, per="2s", concurrent=3)
        await same.engine()
        assert (await rows(engine, "ff_operator_event"), caplog.records) == ([], [])
        other = redeployed(app)
        other.budget(
            "day",
            hard={"tokens": 20},
            soft={"tokens": 15},
            on_hard_limit=HardLimitAction.FAIL_EXECUTION,
        )
        other.quota("q", requests=6, per="2s")
        await other.engine()
    assert await limits(engine) == {"tokens": 20}
    found = await engine.read_quota_policy_limits(quota_id("default", "q"))
    assert found is not None and (found.max_requests_per_window, found.active_concurrency_cap) == (
        6,
        0,
    )
    told = [
        (record.getMessage(), vars(record)["limit_kind"], vars(record)["limit_name"])
        for record in caplog.records
    ]
    text = "the declared limits differ from the stored ones, and replace them"
    assert told == [(text, "budget", "day"), (text, "quota", "q")]
    said = vars(caplog.records[0])
    assert (said["old_limits"]["hard_limits"], said["new_limits"]["hard_limits"]) == (
        {"tokens": 10},
        {"tokens": 20},
    )
    events = [
        (row["event_type"], json.loads(row["details"])["by"])
        for row in await rows(engine, "ff_operator_event")
    ]
    by = "FF_API_TOKEN" if isinstance(app.given_engine, Served) else "shop"
    assert events == [("budget_updated", by), ("quota_policy_updated", by)]
    await ended(app)


async def test_limits_stay_if_the_token_may_not_change_them(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may create limits, and declare those that are stored."""
    roles = {"roles": ["submit", "work"], "namespace": "acme", "lanes": ["default"]}
    file = tokens_file(tmp_path, {"name": "worker", **roles})
    async with serve(engine, settings(FF_API_TOKENS_FILE=str(file))) as url:

        async def declare(**said: Any) -> None:
            remote = RemoteEngine(url, token_of("worker"))
            try:
                app = App("memory://", engine=cast(Engine, remote), namespace="acme")
                app.budget("day", **{"hard": {"tokens": 10}, **said.get("budget", {})})
                app.quota("q", **{"concurrent": 3, **said.get("quota", {})})
                for each in app.budgets:
                    await each.make(cast(Engine, remote), "acme", "shop")
                for quota in app.quotas.values():
                    await quota.make(cast(Engine, remote), "acme", "shop")
            finally:
                await remote.close()

        with caplog.at_level(logging.INFO, LOG):
            await declare()
            await declare()
            assert caplog.records == []
            await declare(budget={"hard": {"tokens": 20}}, quota={"concurrent": 4})
    text = "the declared limits differ from the stored ones, which stay"
    assert [record.getMessage() for record in caplog.records] == [text] * 2
    assert all("lacks the role operate" in vars(record)["reason"] for record in caplog.records)
    assert (await engine.get_budget_status(budget_id("acme", "day"))).hard_limits == {"tokens": 10}


# ---- a run that a budget holds


@pytest.mark.meets("budget_action", "deploy")
async def test_run_suspended_by_its_budget_runs_again_from_the_top(
    app: App, engine: Engine, clock: ManualClock
) -> None:
    """The run does not fail, and whatever it catches, it does not run on."""
    app.budget("day", hard={"tokens": 10}, on_hard_limit=HardLimitAction.SUSPEND_EXECUTION)
    began, after = [], []

    @app.task
    async def talk(ctx: Context) -> str:
        began.append(ctx.attempt)
        await ctx.spend("day", tokens=8, key="one")
        try:
            await ctx.spend("day", tokens=8, key="two")
        except BudgetExceeded:
            after.append("told")
        after.append("went on")
        return "done"

    run = await talk.submit()
    await worked_off(app)
    assert (began, after) == ([0], []) and await run.state() == "rate_limited"
    (reason,) = (await engine.explain_execution(run.id)).reasons
    assert "budget `day`" in reason.says and "8 of 10 tokens are used" in reason.says
    clock.advance(60_000)
    assert await engine.release_limited() == 0
    again = redeployed(app)
    again.budget("day", hard={"tokens": 16}, on_hard_limit=HardLimitAction.SUSPEND_EXECUTION)
    await again.engine()
    await worked_off(app)
    assert (began, after, await run.result()) == ([0, 0], ["went on"], "done")
    await ended(app)


def test_invalid_budget_names_its_field() -> None:
    assert Budget("day", hard={"t": 1}).creation("acme").namespace == "acme"
