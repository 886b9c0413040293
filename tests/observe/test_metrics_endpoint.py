"""The metrics page and its sampling of the database."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import TransportError
from flowfabric.observe import CONTENT_TYPE, Metrics, Scrape, metrics_app
from flowfabric.observe.metrics_endpoint import REFRESH_S
from tests.engine.helpers import create

from .helpers import values


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_gauges_are_read_at_most_every_ten_seconds(memory: Engine, metrics: Metrics) -> None:
    clock = Clock()
    scrape = Scrape(metrics, memory, clock)
    await create(memory)
    await asyncio.gather(scrape(), scrape())
    await create(memory)
    clock.now += REFRESH_S - 0.1
    assert b'ff_executions{lane="default",state="waiting"} 1.0' in await scrape()
    clock.now += 0.2
    assert b'ff_executions{lane="default",state="waiting"} 2.0' in await scrape()


async def test_an_unreachable_database_clears_gauges(
    memory: Engine, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    scrape = Scrape(metrics, memory, clock)
    await create(memory)
    await scrape()

    async def away() -> None:
        raise TransportError("test", "gone")

    monkeypatch.setattr(memory, "census", away)
    clock.now += REFRESH_S
    metrics.worker_at_capacity()
    await scrape()
    assert values(metrics, "ff_executions") == {}
    assert values(metrics, "ff_worker_at_capacity_total") == {(): 1}


async def test_without_an_engine_there_are_only_the_counters_of_this_process(
    metrics: Metrics,
) -> None:
    metrics.worker_at_capacity()
    assert b"ff_worker_at_capacity_total 1.0" in await Scrape(metrics)()


async def ask(scrape: Any, method: str = "GET", kind: str = "http") -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await metrics_app(scrape)({"type": kind, "method": method, "path": "/metrics"}, None, send)  # type: ignore[arg-type]
    return sent


async def test_the_page(metrics: Metrics) -> None:
    start, body = await ask(Scrape(metrics))
    assert start["status"] == 200 and (b"content-type", CONTENT_TYPE.encode()) in start["headers"]
    assert b"# TYPE ff_workers gauge" in body["body"]


async def test_the_page_is_empty_when_metrics_are_off() -> None:
    start, body = await ask(None)
    assert (start["status"], body["body"]) == (200, b"")


async def test_other_ways_to_ask(metrics: Metrics) -> None:
    assert (await ask(Scrape(metrics), "POST"))[0]["status"] == 405
    assert (await ask(Scrape(metrics), "HEAD"))[1]["body"] == b""
    assert await ask(Scrape(metrics), kind="lifespan") == []
