"""Schedules on every store, with a manual clock."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from flowfabric import App, Context, Engine, PayloadError, Worker
from flowfabric.errors import ConfigError, TransportError
from flowfabric.sdk.schedules import MAX_AT_ONCE, SHORTEST_PAUSE_S, Ticker
from flowfabric.testing import ManualClock
from tests.patience import patient

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


class Fleet:
    """Several processes with the same schedule, and what any of them has run."""

    def __init__(
        self, engine: Engine, clock: ManualClock, line: str, size: int = 1, **options: Any
    ) -> None:
        self.engine, self.clock, self.ran = engine, clock, list[str]()
        self.apps = [self._app(line, options) for _ in range(size)]
        self.tickers = [Ticker(app, engine) for app in self.apps]

    def _app(self, line: str, options: dict[str, Any]) -> App:
        app = App("memory://", engine=self.engine)

        @app.schedule(line, **options)
        @app.task
        async def nightly(ctx: Context) -> None:
            self.ran.append(ctx.tags["schedule.tick"])

        return app

    async def look(self) -> list[str]:
        """Submits by all tickers at once; the ticks that have run."""
        await asyncio.gather(*(ticker.submit_due() for ticker in self.tickers))
        before, worker = len(self.ran), Worker(self.apps[0], concurrency=64)
        await worker.run_until_idle()
        await worker.stop()
        return sorted(self.ran[before:])

    async def look_at(self, text: str) -> list[str]:
        self.clock.now_ms = at(text)
        return await self.look()


async def test_each_tick_is_one_run(engine: Engine, clock: ManualClock) -> None:
    fleet = Fleet(engine, clock, "*/5 * * * *", tz="Europe/Paris")
    assert await fleet.look_at("2027-05-01T11:58") == []
    assert await fleet.look_at("2027-05-01T11:59:59") == []
    assert await fleet.look_at("2027-05-01T12:00") == ["2027-05-01T14:00:00+02:00"]
    assert await fleet.look_at("2027-05-01T12:00:01") == []
    assert await fleet.tickers[0].submit_due() == 30
    fleet.clock.now_ms = at("2027-05-01T12:04:50")
    assert await fleet.tickers[0].submit_due() == 10


async def test_two_schedulers_neither_double_nor_skip(engine: Engine, clock: ManualClock) -> None:
    """Across a night in which the clock is set back, in uneven steps, by all tickers at once."""
    clock.now_ms = at("2027-10-30T23:00")
    fleet = Fleet(engine, clock, "*/10 * * * *", size=2, tz="Europe/Paris")
    await fleet.look()
    dice = random.Random(7)
    while clock.now_ms < at("2027-10-31T03:00"):
        clock.advance(dice.randrange(1_000, 59_000))
        await fleet.look()
    expected = [
        datetime.fromtimestamp(at("2027-10-30T23:00") / 1_000 + 600 * n, UTC) for n in range(1, 25)
    ]
    found = sorted(datetime.fromisoformat(tick) for tick in fleet.ran)
    assert found[:24] == expected and len(found) == len(set(found))


@pytest.mark.parametrize(
    ("catch_up", "missed"),
    [("skip", []), ("one", ["2027-05-02T11:00:00+00:00"]), ("all", None)],
)
async def test_ticks_missed_in_a_day_follow_catch_up(
    engine: Engine, clock: ManualClock, catch_up: str, missed: list[str] | None
) -> None:
    clock.now_ms = at("2027-05-01T11:30")
    fleet = Fleet(engine, clock, "0 * * * *", size=2, catch_up=catch_up)
    await fleet.look()
    found = await fleet.look_at("2027-05-02T11:30")
    if missed is None:
        assert (
            len(found) == 24
            and found[0] == "2027-05-01T12:00:00+00:00"
            and found[-1] == "2027-05-02T11:00:00+00:00"
        )
    else:
        assert found == missed
    assert await fleet.look() == []
    assert await fleet.look_at("2027-05-02T12:00:59") == ["2027-05-02T12:00:00+00:00"]


async def test_many_missed_ticks_are_submitted_in_batches(
    engine: Engine, clock: ManualClock
) -> None:
    fleet = Fleet(engine, clock, "* * * * *", catch_up="all")
    await fleet.look()
    clock.advance((MAX_AT_ONCE + 10) * MINUTE_MS)
    assert [len(await fleet.look()) for _ in range(3)] == [MAX_AT_ONCE, 10, 0]
    clock.advance(MAX_AT_ONCE * MINUTE_MS)
    assert await fleet.tickers[0].submit_due() == SHORTEST_PAUSE_S, (
        "there may be more, and nobody waits for the next tick"
    )
    assert await fleet.tickers[0].submit_due() > SHORTEST_PAUSE_S


async def test_ticks_of_a_pause_are_left_out(engine: Engine, clock: ManualClock) -> None:
    clock.now_ms = at("2027-05-01T11:30")
    fleet = Fleet(engine, clock, "0 * * * *", size=2, catch_up="all")
    await fleet.look()
    schedule = fleet.apps[1].schedules["nightly"]
    assert await schedule.pause() is True
    assert await fleet.look_at("2027-05-01T12:00") == []
    fleet.clock.now_ms = at("2027-05-01T14:30")
    assert await schedule.resume() is True
    assert await fleet.look() == []
    assert await fleet.look_at("2027-05-01T15:00") == ["2027-05-01T15:00:00+00:00"]


async def test_schedule_declared_paused_stays_paused(engine: Engine, clock: ManualClock) -> None:
    clock.now_ms = at("2027-05-01T11:30")
    paused = Fleet(engine, clock, "0 * * * *", catch_up="all", paused=True)
    await paused.look()
    assert await paused.look_at("2027-05-01T12:00") == []
    assert await paused.look_at("2027-05-01T13:10") == []
    again = Fleet(engine, clock, "0 * * * *", catch_up="all")
    assert await again.look_at("2027-05-01T13:20") == []
    assert await again.look_at("2027-05-01T14:00") == ["2027-05-01T14:00:00+00:00"]


async def test_changed_clock_repeats_no_tick(engine: Engine, clock: ManualClock) -> None:
    """Set back, it repeats nothing. A mark far ahead, set by a wrong clock, does not stop it."""
    clock.now_ms = at("2027-05-01T11:59")
    fleet = Fleet(engine, clock, "0 * * * *", size=2)
    await fleet.look()
    assert len(await fleet.look_at("2027-05-01T12:00:01")) == 1
    assert await fleet.look_at("2027-05-01T11:58") == []
    assert await fleet.look_at("2027-05-01T12:00:02") == []
    mark = (await engine.read_schedules("default")).marks["nightly"]
    assert await engine.move_schedule(mark, at("2027-05-02T09:00"))
    assert await fleet.look_at("2027-05-01T12:00:30") == []
    assert await fleet.look_at("2027-05-01T13:00") == ["2027-05-01T13:00:00+00:00"]
    mark = (await engine.read_schedules("default")).marks["nightly"]
    assert await engine.move_schedule(mark, at("2027-05-01T13:02"))
    assert await fleet.look_at("2027-05-01T13:00:30") == []
    assert await fleet.look_at("2027-05-01T14:00") == ["2027-05-01T14:00:00+00:00"]


async def test_crash_between_submit_and_mark_submits_each_tick_once(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.now_ms = at("2027-05-01T11:59")
    fleet = Fleet(engine, clock, "0 * * * *", catch_up="all")
    await fleet.look()
    clock.now_ms = at("2027-05-01T12:00")

    async def dies(*_: object) -> bool:
        raise TransportError("store", "gone")

    with monkeypatch.context() as broken:
        broken.setattr(engine, "move_schedule", dies)
        with pytest.raises(TransportError):
            await fleet.look()
    assert await fleet.look() == ["2027-05-01T12:00:00+00:00"]
    assert await fleet.look() == []


async def test_worker_submits_due_ticks(engine: Engine, clock: ManualClock) -> None:
    app, ran = App("memory://", engine=engine), asyncio.Event()
    clock.now_ms = at("2027-05-01T11:59:59.950")

    @app.schedule("0 12 * * *", arguments={"what": "lunch"})
    @app.task
    async def ring(what: str) -> None:
        assert what == "lunch"
        ran.set()

    await engine.begin_schedule("default", "ring")
    async with Worker(app, loops=False):
        clock.advance(50)
        async with patient(30):
            await ran.wait()


def test_invalid_schedule_is_refused_when_declared() -> None:
    app = App("memory://")

    @app.task
    async def tidy() -> None: ...

    @app.task
    async def needy(n: int) -> None: ...

    other = App("memory://").task(lambda: None)
    for task, line, options, said in (
        (tidy, "* * * *", {}, "schedule tidy: cron: five fields"),
        (tidy, "* * * * *", {"tz": "Mars"}, "schedule tidy: tz: a time zone"),
        (
            tidy,
            "* * * * *",
            {"catch_up": "some"},
            'schedule tidy: catch_up: "skip", "one" or "all"',
        ),
        (tidy, "* * * * *", {"paused": 1}, "schedule tidy: paused: True or False"),
        (tidy, "* * * * *", {"zone": "UTC"}, "schedule tidy: zone: unknown option"),
        (needy, "* * * * *", {}, "task needy: missing a required argument: 'n'"),
        (other, "* * * * *", {"name": "o"}, "schedule o: task <lambda> belongs to another App"),
        (len, "* * * * *", {}, "schedule len: a task is accepted; put @app.task below"),
    ):
        with pytest.raises((ConfigError, PayloadError)) as caught:
            app.schedule(line, **options)(task)
        assert said in str(caught.value)
    assert app.schedules == {}
    app.schedule("0 * * * *")(tidy)
    app.schedule("30 * * * *", name="tidy-half")(tidy)
    with pytest.raises(ConfigError, match="schedule tidy: already declared"):
        app.schedule("0 * * * *")(tidy)
    assert repr(app.schedules["tidy-half"]) == "Schedule('tidy-half', '30 * * * *', 'UTC')"
    following = app.schedules["tidy"].following(datetime(2027, 5, 1, 12, 30, tzinfo=UTC))
    assert following == datetime(2027, 5, 1, 13, tzinfo=UTC)
