"""The blocking SDK in programs without an event loop, on SQLite and on Postgres."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flowfabric import App as AsyncApp
from flowfabric import Context, PayloadError, RunCancelled, RunFailed
from flowfabric import Run as AsyncRun
from flowfabric.errors import ConfigError, NotFound
from flowfabric.sync import App, Run, Worker, any_of, quorum
from flowfabric.sync import Context as BlockingContext
from tests.postgres import clean_database

PATIENCE = "60s"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return clean_database().url if request.param == "postgres" else f"sqlite:///{tmp_path}/ff.db"


@pytest.fixture
def app(url: str) -> Iterator[App]:
    with App(url) as made:
        yield made


def test_tasks_are_submitted_run_and_waited_for(app: App) -> None:
    @app.task(lane="sums")
    def add(a: int, b: int = 1) -> int:
        return a + b

    @app.task
    async def fail() -> None:
        raise KeyError("nothing")

    with Worker(app) as worker:
        assert add.submit(1, b=2).result(PATIENCE) == 3
        assert [run.result(PATIENCE) for run in add.submit_many([(1, 2), {"a": 3}, 4])] == [3, 4, 5]
        first, again = add.submit(5, key="k"), add.submit(5, key="k")
        assert (first.id, again.result(PATIENCE), first.state()) == (again.id, 6, "completed")
        assert app.run(str(first.id), "add").result() == 6
        with pytest.raises(RunFailed, match="nothing"):
            fail.submit().result(PATIENCE)
    assert (worker.done, worker.running) == (6, 0)
    assert (add(1), add.name, add.lane, add.__name__) == (2, "add", "sums", "add")


def test_every_operation_on_a_run_blocks_until_its_answer(app: App) -> None:
    @app.task
    async def ask(ctx: Context) -> int:
        (answer,) = await ctx.suspend("answer", payload=int)
        for line in ("one", "two", "three"):
            await ctx.emit(line)
        return int(answer.payload)

    run, other = ask.submit(), ask.submit()
    other.cancel("not wanted")
    with pytest.raises(RunCancelled, match="not wanted"):
        other.result()
    assert Worker(app).run_until_idle() == 1
    assert (run.state(), len(run.waitpoints())) == ("suspended", 1)
    assert run.why().reasons
    run.signal("yes", 42, source="ann")
    assert Worker(app).run_until_idle() == 1
    assert run.result() == 42
    assert [frame.payload for frame in run.stream()] == [b"one", b"two", b"three"]
    told = [entry.what for entry in run.history(page=2)]
    assert (told[0], told[-1], "signalled" in told) == ("created", "ended", True)
    stream = run.stream()
    assert next(stream).payload == b"one"
    stream.close()  # type: ignore[attr-defined]
    other.replay()
    assert other.outcome().public_state == "waiting"


def test_nodes_pass_results_and_wait_for_groups(app: App) -> None:
    @app.task
    def double(n: int) -> int:
        return 2 * n

    @app.task
    def total(numbers: list[int], plus: int) -> int:
        return sum(numbers) + plus

    with app.flow("sums") as flow:
        some = [flow.add(double, n) for n in (1, 2, 3)]
        first = flow.add(double, 10, after=any_of(*some, cancel_rest=False))
        second = flow.add(double, 20, after=quorum(2, *some, cancel_rest=False))
        last = flow.add(total, some, plus=first, after=[second])
    with Worker(app):
        assert last.result(PATIENCE) == 12 + 20
    nodes = []

    def mistaken() -> None:
        with app.flow("none") as flow:
            nodes.append(flow.add(double, 1))
            flow.add(double, "x")

    with pytest.raises(PayloadError):
        mistaken()
    with pytest.raises(NotFound):
        nodes[0].state()


def test_tasks_of_another_app_are_submitted_by_function_and_by_name(url: str) -> None:
    declared = AsyncApp(url)

    @declared.task
    async def hello(name: str) -> str:
        return f"hello {name}"

    with App(declared) as app, Worker(app):
        assert app.submit(hello, "ann").result(PATIENCE) == "hello ann"
        assert app.named("hello").submit("bob").result(PATIENCE) == "hello bob"
        assert [run.result(PATIENCE) for run in app.submit_many(hello, ["x", "y"])] == [
            "hello x",
            "hello y",
        ]
    with pytest.raises(ConfigError, match="name: an existing App has its own"):
        App(declared, name="x")


@pytest.mark.parametrize(
    ("blocking", "original", "returned"),
    [
        (Run.result, AsyncRun.result, "R"),
        (Run.history, AsyncRun.history, "Iterator[HistoryEntry]"),
        (App.quota, AsyncApp.quota, "Quota"),
        (BlockingContext.sleep, Context.sleep, "None"),
        (BlockingContext.approval, Context.approval, "Decision"),
    ],
)
def test_blocking_method_shows_the_docstring_and_signature_of_the_async_one(
    blocking: Callable[..., object], original: Callable[..., object], returned: str
) -> None:
    shown = inspect.signature(blocking)
    assert shown.parameters == inspect.signature(original).parameters
    assert (shown.return_annotation, blocking.__doc__) == (returned, original.__doc__)
    assert blocking.__name__ == original.__name__ and blocking.__doc__


def test_schedule_is_declared_with_the_blocking_app() -> None:
    app = App("memory://")

    @app.schedule("0 9 * * *", tz="Europe/Paris")
    @app.task
    def report() -> None: ...

    assert (report.name, repr(app.inner.schedules["report"])) == (
        "report",
        "Schedule('report', '0 9 * * *', 'Europe/Paris')",
    )


def test_blocking_calls_work_from_many_threads(app: App) -> None:
    @app.task
    def add(a: int) -> int:
        return a + 1

    found: list[int] = []
    with Worker(app):
        threads = [
            threading.Thread(target=lambda n=n: found.append(add.submit(n).result(PATIENCE)))
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == list(range(1, 9))


def test_blocking_call_inside_an_event_loop_is_refused(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/ff.db")

    @app.task
    def add(a: int) -> int:
        return a + 1

    async def inside() -> None:
        add.submit(1)

    with pytest.raises(ConfigError, match=r"use flowfabric\.App and await"):
        asyncio.run(inside())
    assert not list(tmp_path.iterdir())


PROGRAM = """
import os, sys
from flowfabric.errors import ConfigError, NotFound
from flowfabric.sync import App, Worker

app = App(sys.argv[1])

@app.task
def add(a: int, b: int) -> int:
    return a + b

with Worker(app):
    print(add.submit(1, 2).result("60s"))
sys.stdout.flush()
if os.fork() == 0:
    try:
        add.submit(1, 2)
    except ConfigError as error:
        print(error)
    sys.exit(0)
os.wait()
"""


def test_program_exits_cleanly_and_use_after_a_fork_is_refused(url: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(tmp_path / "program.py"), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "3" and "was forked from one that used it already" in second
    assert "Traceback" not in done.stderr and "Task was destroyed" not in done.stderr
    if url.startswith("sqlite"):
        assert not os.path.exists(tmp_path / "ff.db-wal"), "it was not closed"


def test_runs_are_listed_counted_and_acted_on(app: App) -> None:
    @app.task(lane="sums")
    def add(a: int, b: int = 1) -> int:
        return a + b

    @app.task(lane="sums")
    def fail() -> None:
        raise KeyError("nothing")

    with Worker(app):
        assert add.submit(1).result(PATIENCE) == 2
        with pytest.raises(RunFailed):
            fail.submit().result(PATIENCE)
    waiting = add.submit(5)
    page = app.runs(task=add, limit=1)
    assert [info.id for info in page] == [waiting.id] and page.next_cursor is not None
    infos = list(app.runs.all(state=["completed", "failed"], oldest_first=True, page=1))
    assert [info.task for info in infos] == ["add", "fail"]
    assert infos[0].run.result() == 2 and infos[0].progress is None
    assert app.counts().by_task == {"add": 2, "fail": 1}
    named = app.run(str(waiting), "add")
    assert named.info().id == waiting.info().id == named.id
    assert named.progress() is None and str(named) == str(waiting)
    job = app.bulk("cancel", task=add, reason="not needed")
    assert job.wait(PATIENCE).changed == 1
    assert waiting.info().cancel_reason == "not needed"
    assert app.bulk.job(job.id).progress().state == "completed"
    infos[1].run.delete()
    assert [info.task for info in app.runs.all(state="failed")] == []


def test_a_flow_is_waited_for_and_read(app: App) -> None:
    @app.task
    def double(n: int) -> int:
        return 2 * n

    @app.task
    def total(parts: list[int]) -> int:
        return sum(parts)

    with app.flow("sums") as flow:
        flow.add(total, [flow.add(double, 1), flow.add(double, 2, node="second")])
    assert (flow.name, flow.state()) == ("sums", "blocked")
    with Worker(app):
        assert flow.wait(PATIENCE) == "completed"
    existing = app.flow(id=str(flow.id))
    assert existing.id == app.flow(flow.id).id == flow.id
    assert existing.results() == {"double": 2, "second": 4, "total": 6}
    assert existing.describe().members == {"completed": 3}
    assert sorted(info.run.result() for info in existing.runs() if info.task == "double") == [2, 4]
    builder = app.flow("left")
    builder.add(double, 1)
    left = builder.submit()
    left.cancel("not needed")
    assert left.state() == "cancelled"
