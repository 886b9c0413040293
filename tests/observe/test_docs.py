"""docs/observability.md: its snippets run and its table lists every series."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flowfabric import App
from flowfabric.observe import Metrics
from flowfabric.observe.metrics import MAX_VALUES
from tests.cli.processes import running

from .test_metrics import SERIES

PAGE = (Path(__file__).parents[2] / "docs" / "observability.md").read_text(encoding="utf-8")
TASKS, WORKER, ENGINE, PUSH, TRACES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"```sh\n(.*?)\n```", PAGE, re.DOTALL)

pytestmark = pytest.mark.xdist_group("processes")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def fetched(url: str, part: str, patience_s: float = 30.0) -> None:
    """Until the page has this in it: what a worker has ended, it counts a little after
    others know.
    """
    until, text = time.monotonic() + patience_s, "nothing"
    while part not in text:
        assert time.monotonic() < until, f"{url} says {text}"
        time.sleep(0.05)
        with suppress(urllib.error.URLError), urllib.request.urlopen(url, timeout=5) as page:
            text = page.read().decode()


def test_a_worker_with_its_metrics_page(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "tasks.py").write_text(TASKS, encoding="utf-8")
    (tmp_path / "worker.py").write_text(WORKER.replace("9464", str(port)), encoding="utf-8")
    assert COMMANDS[1:3] == ["curl -s http://127.0.0.1:9464/metrics", "python worker.py"]
    worker = subprocess.Popen(
        [sys.executable, "worker.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        fetched(f"http://127.0.0.1:{port}/metrics", "ff_worker_at_capacity_total")
        assert asyncio.run(greeted(tmp_path)) == "Hello, Ann!"
        fetched(
            f"http://127.0.0.1:{port}/metrics",
            'ff_attempt_outcome_total{lane="default",outcome="ok"} 1.0',
        )
        worker.send_signal(signal.SIGTERM)
        said = worker.communicate(timeout=60)[1]
        assert worker.returncode == 0, said
        assert {"ts", "level", "logger", "message", "scanner", "interval_ms"} in [
            json.loads(line).keys() for line in said.splitlines()
        ]
    finally:
        worker.kill()
        worker.communicate()


def test_the_worker_command_with_its_metrics_page(tmp_path: Path) -> None:
    port = str(free_port())
    (tmp_path / "tasks.py").write_text(TASKS, encoding="utf-8")
    with running(tmp_path, *COMMANDS[0].replace("9464", port).split()[1:]) as worker:
        worker.until("tasks.py: task greet")
        assert asyncio.run(greeted(tmp_path)) == "Hello, Ann!"
        fetched(
            COMMANDS[1].split()[-1].replace("9464", port),
            'ff_attempt_outcome_total{lane="default",outcome="ok"} 1.0',
        )


async def greeted(folder: Path) -> str:
    app = App(f"sqlite:///{folder}/tasks.db")

    @app.task
    async def greet(name: str) -> str:
        raise AssertionError

    async with app:
        return await (await greet.submit("Ann")).result(timeout="60s")


def test_the_engine_and_its_queues(capsys: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        found = eval(
            compile(ENGINE, "observability.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {}
        )
        if inspect.isawaitable(found):
            await found

    asyncio.run(run())
    assert capsys.readouterr().out.splitlines() == re.findall(
        r"^(?:print\(.*)?\)  # (.*)$", ENGINE, re.MULTILINE
    )


def test_the_worker_command_with_a_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tasks.py").write_text(TASKS, encoding="utf-8")
    setting, *command = COMMANDS[3].split()
    variable, _, spec = setting.partition("=")
    monkeypatch.setenv(variable, spec)
    assert command[0] == "flowfabric"
    with running(tmp_path, *command[1:]) as worker:
        worker.until("tasks.py: task greet")
        os.kill(worker.process.pid, signal.SIGTERM)
        assert worker.ended() == 0
    logged = [json.loads(line) for line in worker.lines if line.startswith("{")]
    assert {said["logger"] for said in logged} >= {"flowfabric.loops"}


def test_traces_are_off_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    app = App("memory://")
    names: dict[str, Any] = {"app": app}
    exec(TRACES, names)
    assert app.middleware == [] and "OTEL_EXPORTER_OTLP_ENDPOINT" in COMMANDS[4]


def test_nothing_is_pushed_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    names: dict[str, Any] = {"metrics": Metrics()}
    exec(PUSH, names)
    names["end"]()


def test_every_series_is_in_the_table_with_its_labels() -> None:
    table = dict(re.findall(r"^\| `(ff_\w+)` \| \w+ \| ([^|]*)\|", PAGE, re.MULTILINE))
    assert {
        name: tuple(filter(None, labels.strip().split(", "))) for name, labels in table.items()
    } == SERIES


def test_the_maxima_are_those_that_hold() -> None:
    assert f"({MAX_VALUES['lane']} lanes, {MAX_VALUES['path']} routes)" in PAGE
