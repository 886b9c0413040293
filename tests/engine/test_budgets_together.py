"""Concurrent reports on one engine: limits hold exactly, every call is answered, and the log stays
readable.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from flowfabric import Engine
from flowfabric.engine import batcher
from flowfabric.engine.limits import budgets as engine_budgets
from flowfabric.errors import ValidationError
from flowfabric.model.budget import MAX_AMOUNT, MAX_DIMENSIONS, HardBreach, UsageOk
from flowfabric.store.port import Loaded, Read

from .budget_helpers import AGAIN, OK, account, budget, hard, report, sound, spend, status, usage
from .helpers import new_id, two_stores


async def test_fifty_reports_against_thirty(engine: Engine) -> None:
    ident = await budget(engine, {"a": 30})
    done = await asyncio.gather(*(report(engine, ident, a=1) for _ in range(50)))
    assert Counter(map(type, done)) == {UsageOk: 30, HardBreach: 20}
    shown = await status(engine, ident)
    assert (shown.usage, shown.breach_count) == ({"a": 30}, 20)
    await sound(engine)


async def test_one_key_from_fifty_callers_counts_once(engine: Engine) -> None:
    ident, who = await budget(engine, {"a": 30}), new_id()
    done = await asyncio.gather(*(spend(engine, ident, who, "k", a=1) for _ in range(50)))
    assert Counter(map(type, done)) == {UsageOk: 1, type(AGAIN): 49}
    assert (await usage(engine, ident), await account(engine, who, ident)) == ({"a": 1}, {"a": 1})


@pytest.mark.timeout(120)
async def test_sixteen_callers_with_their_reports(engine: Engine) -> None:
    ident, limit = await budget(engine, {"a": 8_000}), 8_000

    async def caller(number: int) -> int:
        done = [await report(engine, ident, f"{number}-{at}", a=1) for at in range(625)]
        return done.count(OK)

    counted = await asyncio.gather(*(caller(n) for n in range(16)))
    assert sum(counted) == limit
    shown = await status(engine, ident)
    assert (shown.usage, shown.breach_count) == ({"a": limit}, 16 * 625 - limit)


async def test_many_budgets_at_once_do_not_mix(engine: Engine) -> None:
    idents = [await budget(engine, {"a": n}) for n in range(1, 6)]
    done = await asyncio.gather(
        *(report(engine, ident, "k", a=at) for at in range(1, 6) for ident in idents)
    )
    assert len(done) == 25
    for most, ident in enumerate(idents, 1):
        assert await usage(engine, ident) == {"a": 1}, most


async def test_one_that_cannot_be_held_does_not_harm_the_others(engine: Engine) -> None:
    ident = await budget(engine)
    done: list[Any] = await asyncio.gather(
        report(engine, ident, a=MAX_AMOUNT),
        report(engine, ident, a=1),
        report(engine, ident, b=2),
        return_exceptions=True,
    )
    assert (done[0], type(done[1]), done[2]) == (OK, ValidationError, OK)
    assert await usage(engine, ident) == {"a": MAX_AMOUNT, "b": 2}


@two_stores
@pytest.mark.timeout(120)
async def test_a_full_batch_of_wide_reports(engine: Engine) -> None:
    """Each names all the dimensions there may be, an account and a key."""
    ident = await budget(engine)
    deltas = {f"d{n:02}": 1 for n in range(MAX_DIMENSIONS)}
    done = await asyncio.gather(
        *(
            spend(engine, ident, new_id(n), str(n), **deltas)
            for n in range(engine_budgets.MAX_REPORTS + 44)
        )
    )
    assert done == [OK] * (engine_budgets.MAX_REPORTS + 44)
    assert await usage(engine, ident) == dict.fromkeys(deltas, engine_budgets.MAX_REPORTS + 44)


async def test_a_cancelled_caller_is_counted_and_does_not_affect_others(engine: Engine) -> None:
    ident = await budget(engine, {"a": 9})
    gone = asyncio.ensure_future(report(engine, ident, a=1))
    others = [asyncio.ensure_future(report(engine, ident, a=1)) for _ in range(3)]
    await asyncio.sleep(0)
    gone.cancel()
    assert await asyncio.gather(*others) == [OK] * 3
    assert (await usage(engine, ident))["a"] in (3, 4)
    assert await report(engine, ident, a=1) == OK


@two_stores
async def test_the_engine_closes_when_what_was_reported_is_counted(engine: Engine) -> None:
    ident = await budget(engine, {"a": 9})
    waiting = [asyncio.ensure_future(report(engine, ident, a=1)) for _ in range(3)]
    await asyncio.sleep(0)
    await engine.parts.budgets.batcher.finish()
    assert [task.done() or await task == OK for task in waiting] == [True] * 3


@two_stores
async def test_a_failed_read_answers_every_caller_and_the_next_is_served(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ident, honest, fails = await budget(engine, {"a": 9}), engine.store.load, [True]

    async def load(reads: list[Read]) -> Loaded:
        if fails and fails.pop():
            raise OSError("gone")
        return await honest(reads)

    monkeypatch.setattr(engine.store, "load", load)
    done = await asyncio.gather(
        *(report(engine, ident, a=1) for _ in range(3)), return_exceptions=True
    )
    assert [type(each) for each in done] == [OSError] * 3
    assert await report(engine, ident, a=1) == OK
    assert await usage(engine, ident) == {"a": 1}


@two_stores
async def test_a_cancelled_count_leaves_no_caller_waiting(engine: Engine) -> None:
    ident = await budget(engine, {"a": 9})
    waiting = [asyncio.ensure_future(report(engine, ident, a=1)) for _ in range(2)]
    for _ in range(2):  # the reports are submitted, then their batch starts
        await asyncio.sleep(0)
    (task,) = [task for task in asyncio.all_tasks() if task.get_name() == batcher.TASK]
    task.cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in done] == [asyncio.CancelledError] * 2
    assert await report(engine, ident, a=1) == OK


@two_stores
async def test_a_warning_at_most_once_a_minute_and_budget(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    at = [0.0]
    monkeypatch.setattr(engine_budgets.time, "monotonic", lambda: at[0])
    caplog.set_level(logging.WARNING, "flowfabric.budgets")
    one, other = await budget(engine, {"a": 1}), await budget(engine, {"a": 1})

    async def warned(*idents: Any) -> list[tuple[Any, ...]]:
        caplog.clear()
        for ident in idents:
            assert await report(engine, ident, a=2) == hard("a", 0, 1)
        fields = ("budget", "dimension", "used", "limit")
        ours = [record for record in caplog.records if record.name == "flowfabric.budgets"]
        return [tuple(record.__dict__[field] for field in fields) for record in ours]

    assert await warned(one, one, other, one) == [(str(i), "a", 0, 1) for i in (one, other)]
    at[0] = 59.9
    assert await warned(one, other) == []
    at[0] = 60.0
    assert len(await warned(one, one)) == 1
    monkeypatch.setattr(engine_budgets, "MAX_WARNED", 1)
    at[0] = 200.0
    assert len(await warned(other)) == 1
    assert list(engine.parts.budgets.warned) == [other]
