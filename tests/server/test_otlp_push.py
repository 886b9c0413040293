"""A server process pushes metrics and traces by OTLP, each without the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.observe.receivers import Receiver, on_page, pushed, receiving
from tests.remote.served import TOKEN
from tests.remote.servers import server

pytestmark = pytest.mark.xdist_group("processes")
HEALTHZ = (
    "ff_http_requests_total",
    frozenset({("method", "GET"), ("path", "/healthz"), ("status", "200")}),
)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{found.address}")
        yield found


async def get(url: str) -> tuple[int, str]:
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as client, client.get(url) as answer:
        return answer.status, await answer.text()


async def test_metrics_are_pushed_while_the_server_runs(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
    with server(f"sqlite:///{tmp_path}/ff.db", tmp_path) as process:
        await process.start()
        assert (await get(f"{process.url}/healthz"))[0] == 200
        await asyncio.to_thread(
            receiver.until, lambda: any(HEALTHZ in pushed(push) for push in receiver.pushes)
        )
        series = pushed(receiver.pushes[-1])
        assert ("ff_cancel_backlog_depth", frozenset()) in series, (
            "the queues have been counted for it"
        )
        page = on_page((await get(f"{process.url}/metrics"))[1])
        assert {name for name, _ in series} <= {name for name, _ in page} and page[
            HEALTHZ
        ] == series[HEALTHZ] == 1
        assert await process.stop() == 0


async def test_the_last_metrics_are_pushed_at_shutdown(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000")
    with server(f"sqlite:///{tmp_path}/ff.db", tmp_path) as process:
        await process.start()
        await get(f"{process.url}/healthz")
        assert receiver.pushes == []
        assert await process.stop() == 0
    (push,) = receiver.pushes
    assert pushed(push)[HEALTHZ] == 1
    assert "GET /healthz" in receiver.spans


async def test_traces_without_metrics(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FF_METRICS", "0")
    with server(f"sqlite:///{tmp_path}/ff.db", tmp_path) as process:
        await process.start()
        assert (await get(f"{process.url}/metrics"))[0] == 404
        assert await process.stop() == 0
    assert "GET /metrics" in receiver.spans and receiver.pushes == []


async def test_metrics_without_traces(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    with server(f"sqlite:///{tmp_path}/ff.db", tmp_path) as process:
        await process.start()
        assert await process.stop() == 0
    assert receiver.pushes and receiver.spans == []
