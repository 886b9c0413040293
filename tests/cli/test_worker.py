"""`flowfabric worker` and `flowfabric dev` in real processes."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from flowfabric import App, memory_engine
from flowfabric.cli.app_loader import parse_target
from flowfabric.cli.worker import shown_url
from flowfabric.errors import ConfigError
from flowfabric.server.lifecycle import serve
from tests.cli.commands import flowfabric, refused
from tests.cli.processes import PATIENCE_S, running
from tests.patience import patience
from tests.postgres import database
from tests.remote.served import TOKEN, settings

pytestmark = pytest.mark.xdist_group("processes")

APP = """
import asyncio
from pathlib import Path
from flowfabric import App

app = App("sqlite:///ff.db")

@app.task(lane="mail")
async def send(to: str) -> str:
    return f"sent to {to}"

@app.task
async def slow(seconds: float) -> str:
    Path("began").touch()
    await asyncio.sleep(seconds)
    return "slept"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    return tmp_path


def client(url: str, **more: str) -> App:
    """The same tasks by name, to submit them from this process."""
    app = App(url, **more)

    @app.task(lane="mail")
    async def send(to: str) -> str:
        raise AssertionError

    @app.task
    async def slow(seconds: float) -> str:
        raise AssertionError

    return app


def wait_for(there: Callable[[], bool]) -> None:
    until = time.monotonic() + patience(PATIENCE_S)
    while not there():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_url_is_shown_without_its_password() -> None:
    url = "postgresql://me:secret@there:1,then:2/jobs?target_session_attrs=read-write"
    assert shown_url(url) == "postgresql://there:1,then:2/jobs"
    assert shown_url("sqlite:///ff.db") == "sqlite:///ff.db"


async def test_a_stopping_worker_finishes_its_tasks(folder: Path) -> None:
    with running(folder, "worker", "app.py", "--concurrency", "3") as worker:
        first = worker.until("app.py: ")
        assert (
            first == "app.py: tasks send, slow; lanes default, mail; 3 at once; on sqlite:///ff.db"
        )
        async with client(f"sqlite:///{folder}/ff.db") as app:
            assert (
                await (await app.tasks["send"].submit("ann")).result(timeout=PATIENCE_S)
                == "sent to ann"
            )
            run = await app.tasks["slow"].submit(0.5)
            wait_for((folder / "began").exists)
            worker.process.send_signal(signal.SIGTERM)
            worker.until("stopping: waiting up to 30s for 1 task")
            assert worker.ended() == 0
            assert worker.lines[-1] == "stopped; this worker has run 2 tasks"
            assert await run.result() == "slept"


async def test_a_second_signal_releases_running_tasks(folder: Path) -> None:
    with running(folder, "worker", "app.py") as worker:
        worker.until("app.py: ")
        async with client(f"sqlite:///{folder}/ff.db") as app:
            run = await app.tasks["slow"].submit(3600)
            wait_for((folder / "began").exists)
            worker.process.send_signal(signal.SIGINT)
            worker.until("stopping: waiting up to")
            worker.process.send_signal(signal.SIGINT)
            worker.until("second signal")
            assert worker.ended() == 0
            assert await run.state() in ("delayed", "waiting")


async def test_a_page_of_metrics(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(folder, "worker", "app.py", "--metrics", str(port)) as worker:
        assert worker.until("metrics on ") == f"metrics on http://127.0.0.1:{port}/metrics"
        worker.until("app.py: ")
        async with client(f"sqlite:///{folder}/ff.db") as app:
            await (await app.tasks["send"].submit("ann")).result(timeout=PATIENCE_S)

        def is_counted() -> bool:
            with urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                shown = page.read()
            assert b"ff_cancel_backlog_depth 0.0" in shown and b"ff_workers{" in shown
            return b'ff_attempt_outcome_total{lane="mail",outcome="ok"} 1.0' in shown

        wait_for(is_counted)  # the worker hears of its end a little after we do
        worker.process.send_signal(signal.SIGTERM)
        assert worker.ended() == 0


async def test_a_worker_waits_for_its_server(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    url = f"http://{address}"
    (folder / "app.py").write_text(
        APP.replace("sqlite:///ff.db", f'{url}", token="{TOKEN}'), encoding="utf-8"
    )
    with running(folder, "worker", "app.py") as worker:
        said = worker.until("waiting for the server: ")
        assert address in said
        engine = memory_engine()
        async with serve(engine, settings(FF_LISTEN_ADDR=address)):
            assert (await asyncio.to_thread(worker.until, "app.py: ")).endswith(f"on {url}")
            assert sum("waiting for the server" in line for line in worker.lines) == 1
            async with client(url, token=TOKEN) as app:
                assert (
                    await (await app.tasks["send"].submit("ann")).result(timeout=PATIENCE_S)
                    == "sent to ann"
                )
            worker.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(worker.ended) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_waits_for_its_server_can_be_stopped(
    folder: Path, number: signal.Signals
) -> None:
    (folder / "app.py").write_text(
        APP.replace("sqlite:///ff.db", "http://127.0.0.1:9"), encoding="utf-8"
    )
    with running(folder, "worker", "app.py") as worker:
        worker.until("waiting for the server: ")
        worker.process.send_signal(number)
        worker.ended()
        assert not any("Traceback" in line for line in worker.lines)


async def test_a_worker_does_not_wait_for_a_server_that_refuses_it(folder: Path) -> None:
    async with serve(memory_engine(), settings()) as url:
        (folder / "app.py").write_text(
            APP.replace("sqlite:///ff.db", f'{url}", token="{"wrong" * 5}'), encoding="utf-8"
        )
        with running(folder, "worker", "app.py") as worker:
            assert await asyncio.to_thread(worker.ended) == 5
        assert any("401" in line for line in worker.lines)


@pytest.mark.parametrize("port", ["taken", "0", "many", "host:"])
def test_a_metrics_port_in_use_is_an_error(
    folder: Path, port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = flowfabric(
            "worker",
            "app.py",
            "--metrics",
            str(taken.getsockname()[1]) if port == "taken" else port,
        )
    said = (
        "metrics: cannot listen on 127.0.0.1:"
        if port == "taken"
        else "metrics: expected a port from 1 to 65535"
    )
    refused(done, said, 2)


async def test_only_the_lanes_asked_for(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "__init__.py").touch()
    (folder / "inner" / "tasks.py").write_text(APP.replace("app", "mails"), encoding="utf-8")
    with running(folder, "worker", "inner.tasks:mails", "--lanes", "mail") as worker:
        assert "task send; lanes mail;" in worker.until("inner.tasks:mails: ")
        async with client(f"sqlite:///{folder}/ff.db") as app:
            left = await app.tasks["slow"].submit(0)
            assert (
                await (await app.tasks["send"].submit("bob")).result(timeout=PATIENCE_S)
                == "sent to bob"
            )
            assert await left.state() == "waiting"


async def test_the_tasks_of_a_blocking_app(folder: Path) -> None:
    (folder / "app.py").write_text(
        APP.replace("from flowfabric import", "from flowfabric.sync import"), encoding="utf-8"
    )
    with running(folder, "worker", "app.py") as worker:
        worker.until("app.py: tasks send, slow")
        async with client(f"sqlite:///{folder}/ff.db") as app:
            assert (
                await (await app.tasks["send"].submit("ann")).result(timeout=PATIENCE_S)
                == "sent to ann"
            )
        worker.process.send_signal(signal.SIGTERM)
        assert worker.ended() == 0


async def test_another_database_by_url(folder: Path) -> None:
    url = database("worker")
    assert flowfabric("migrate", "--db", url).returncode == 0
    with running(folder, "worker", "app.py", "--db", url) as worker:
        assert url.rpartition("/")[2] in worker.until("app.py: ")
        async with client(url) as app:
            assert (
                await (await app.tasks["send"].submit("ann")).result(timeout=PATIENCE_S)
                == "sent to ann"
            )
        worker.process.send_signal(signal.SIGTERM)
        assert worker.ended() == 0


FILES = {
    "none.py": "x = 1\ndef main(): ...\n",
    "two.py": "from flowfabric import App\nweb = App('memory://')\nmail = App('memory://')\n",
    "empty.py": "from flowfabric import App\napp = App('memory://')\n",
    "broken.py": "import json\njson.loads('{')\n",
    "typo.py": "from flowfabric import App\napp = App('memory://'\n",
    "missing.py": "import not_to_be_found\n",
    "memory.py": "from flowfabric import App\napp = App('memory://')\n@app.task\ndef go(): ...\n",
    "inject.py": "from flowfabric import App, State\napp = "
    "App('sqlite:///ff.db')\n@app.task\ndef go(s: State[str]): ...\n",
}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nope.py", "nope.py: no such file"),
        ("nope", "nope: no such module in this folder"),
        ("app.py:other", "app.py: no name other; found"),
        ("app.py:send", "app.py: send is a Task, expected an App"),
        ("app.py:1", "app: expected a file such as app.py, a module such as package.module"),
        ("none.py", "none.py: no App found; found x (int), main (function)"),
        ("two.py", "two.py: found 2 Apps, mail, web; name one, such as two.py:mail"),
        ("empty.py", "empty.py: the App has no tasks; decorate a function with @app.task"),
        ("broken.py", "line 2, in <module>\n    json.loads('{')"),
        ("typo.py", "SyntaxError: '(' was never closed"),
        ("missing.py", "ModuleNotFoundError: No module named 'not_to_be_found'"),
        ("missing", "import not_to_be_found"),
        (
            "memory.py",
            "memory.py: memory:// is visible to one process only; use --db sqlite:///path",
        ),
        ("inject.py", "task go: s: no str in the worker's state=[...]"),
    ],
)
def test_invalid_targets_are_errors(
    folder: Path,
    target: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    done = flowfabric("worker", target)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr and done.stdout == ""
    assert "Traceback" not in done.stderr


def test_an_unknown_lane_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = flowfabric("worker", "app.py", "--lanes", "mail,male")
    refused(done, "lanes: no task of app.py is on male; its lanes are default, mail", 2)


def test_targets_are_parsed() -> None:
    assert [
        (t.where, t.name, t.path is not None)
        for t in map(parse_target, ("a.py", "a.py:b", "a.b", "a.b:c", "./x/a.py"))
    ] == [
        ("a.py", None, True),
        ("a.py", "b", True),
        ("a.b", None, False),
        ("a.b", "c", False),
        ("./x/a.py", None, True),
    ]
    for wrong in ("", ":app", "a.py:", "a.py:b c"):
        with pytest.raises(ConfigError, match="a file such as"):
            parse_target(wrong)


async def test_dev_restarts_when_a_file_changes(folder: Path) -> None:
    with running(folder, "dev", "app.py") as dev:
        dev.until("app.py: ")
        async with client(f"sqlite:///{folder}/ff.db") as app:
            assert (
                await (await app.tasks["send"].submit("ann")).result(timeout=PATIENCE_S)
                == "sent to ann"
            )
            assert re.search(r"send [0-9a-f-]{36}: done, \d+ ms", dev.until("done"))
            await app.tasks["slow"].submit(0.5)
            wait_for((folder / "began").exists)
            (folder / "app.py").write_text(APP.replace("sent to", "mailed"), encoding="utf-8")
            dev.until("app.py changed: restarting")
            dev.until("stopping: waiting up to 5s for 1 task")
            dev.until("slow")
            dev.until("app.py: ")
            assert (
                await (await app.tasks["send"].submit("ann")).result(timeout=PATIENCE_S)
                == "mailed ann"
            )
        (folder / "app.py").write_text("oops", encoding="utf-8")
        dev.until("NameError: name 'oops' is not defined")
        dev.until("waiting for the code to change")
        (folder / "helper.py").write_text("from flowfabric import App\n", encoding="utf-8")
        dev.until("helper.py changed")
        (folder / "app.py").write_text(
            APP.replace("from flowfabric", "from helper"), encoding="utf-8"
        )
        dev.until("app.py: task")
        dev.process.send_signal(signal.SIGINT)
        assert dev.ended() == 0
        assert dev.lines[-1].startswith("stopped;")


async def test_dev_uses_a_sqlite_file_beside_the_code(
    folder: Path,
) -> None:
    (folder / "app.py").write_text(
        APP.replace("sqlite:///ff.db", "postgresql://nowhere/db"), encoding="utf-8"
    )
    with running(folder, "dev", "app.py") as dev:
        assert dev.until("app.py: ").endswith("on sqlite:///app.dev.db")
        assert (folder / "app.dev.db").exists()


def test_dev_of_nothing() -> None:
    done = flowfabric("dev", "nope.py")
    refused(done, "nope.py: no such file", 2)


async def test_the_worker_of_dev_does_not_outlive_it(folder: Path) -> None:
    with running(folder, "dev", "app.py") as dev:
        dev.until("app.py: ")
        os.kill(dev.process.pid, signal.SIGKILL)
        dev.until("stopping: no task is running")
        dev.ended()
        assert dev.lines[-1].startswith("stopped;")


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def test_the_first_job_is_done_soon_after_the_command(folder: Path) -> None:
    """Within two seconds; on a machine that is busy with other things, those in which it was
    allowed to run count.
    """
    async with client(f"sqlite:///{folder}/ff.db") as app:
        await app.tasks["send"].submit("ann")
    before, began = cpu_of_children(), time.monotonic()
    with running(folder, "dev", "app.py") as dev:
        dev.until("done")
        took = time.monotonic() - began
        dev.process.send_signal(signal.SIGTERM)
        assert dev.ended() == 0
    used = cpu_of_children() - before
    assert took < 2 or used < 1.5, (took, used)
