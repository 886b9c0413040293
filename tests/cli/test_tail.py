"""`flowfabric tail`: output, cursors, errors, and frames of another process."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowfabric import (
    BestEffortLive,
    ClaimPolicy,
    CreateExecutionArgs,
    DurableSummary,
    Engine,
    ExecutionId,
    ExecutionPolicy,
    Frame,
    FrameKind,
    Handle,
    RetryPolicy,
    StreamFrame,
    Visibility,
)
from flowfabric.cli.database import Database
from flowfabric.cli.tail import (
    Closing,
    Position,
    StreamItem,
    TailOptions,
    follow,
    is_inline,
    read_now,
    readable,
    render_line,
    resume_command,
    start_position,
)
from flowfabric.connect import PostgresBackend, SqliteBackend
from flowfabric.errors import ConfigError
from tests.cli.commands import flowfabric, refused
from tests.postgres import database

IDENT = "{fp:0}:11111111-1111-4111-8111-111111111111"
RETRIED = ExecutionPolicy(
    retry_policy=RetryPolicy(max_retries=3, backoff={"type": "fixed", "delay_ms": 0})
)
OUT = FrameKind.Stdout


# ---- one frame


def stored(payload: str, frame_type: str = "stdout", **more: str) -> StreamFrame:
    fields = {
        "payload": payload,
        "frame_type": frame_type,
        "encoding": "utf8",
        "mode": "durable",
        **more,
    }
    return StreamFrame("5-0", fields)


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (stored("oh\nno\n", "stderr"), "[stderr] oh\nno"),
        (stored("{}", "agent_step"), "[agent_step] {}"),
        (stored("/wD+", "blob", encoding="base64"), "[blob] 3 bytes that are not text"),
        (stored("/wD+", "stdout", encoding="base64"), "[stdout] 3 bytes that are not text"),
        (stored('{"a":1}', "event", mode="summary", summary_version="4"), '[summary 4] {"a":1}'),
        (stored("a\x1b[31mb", "a\x1b\nb"), "[a\ufffd\ufffdb] a\ufffd[31mb"),
    ],
)
def test_frames_with_their_own_line(frame: StreamFrame, says: str) -> None:
    assert not is_inline(frame)
    assert render_line(frame) == says


def test_text_runs_on_and_steers_no_terminal() -> None:
    assert is_inline(stored("x")) and is_inline(stored("x", "delta", mode="best_effort"))
    assert readable("1%\r2%\r\nt\tä\x1b[2J\x07") == "1%\n2%\nt\tä\ufffd[2J\ufffd"


# ---- cursors


@pytest.mark.parametrize(
    ("attempt", "after", "place"),
    [
        (None, None, Position(0, "0-0")),
        (2, None, Position(2, "0-0")),
        (None, "17-3", Position(0, "17-3")),
        (None, "2:17-3", Position(2, "17-3")),
        (2, "17", Position(2, "17")),
        (2, "2:17-3", Position(2, "17-3")),
    ],
)
def test_start_positions(attempt: int | None, after: str | None, place: Position) -> None:
    assert start_position(attempt, after) == place


@pytest.mark.parametrize(
    ("attempt", "after", "says"),
    [
        (None, "", "--after: expected the id of a frame.*must not be empty"),
        (None, "start", "--after: expected the id of a frame"),
        (None, "1:-", "--after: expected the id of a frame"),
        (None, "x:17-3", "--after: expected ATTEMPT:ID with the number of an attempt"),
        (None, "-1:17-3", "--after: expected ATTEMPT:ID"),
        (None, "99999999999:17-3", "--after: expected ATTEMPT:ID"),
        (None, "a\x1bb", r"invalid stream cursor 'a\\x1bb'"),
        (1, "2:17-3", "--attempt and --after: must name the same attempt, got 1 and 2"),
    ],
)
def test_invalid_start_positions(attempt: int | None, after: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        start_position(attempt, after)


def test_the_command_that_continues() -> None:
    given = TailOptions(IDENT, Database("jobs.db"), None, None, True, True, False)
    assert (
        resume_command(given, Position(1, "17-3"))
        == f"flowfabric tail '{IDENT}' --after=1:17-3 --db jobs.db"
    )
    for url in ("postgresql://me:secret@there,then/db", "postgresql:///db?user=me&password=secret"):
        given = TailOptions(IDENT, Database(url), 1, None, True, False, True)
        assert (
            resume_command(given, Position(1, "17-3"))
            == f"flowfabric tail '{IDENT}' --attempt=1 --after=17-3 --json --no-live --db URL"
        )


# ---- reading and following, on every store


async def claimed(engine: Engine, ident: ExecutionId | None = None) -> tuple[ExecutionId, Handle]:
    if ident is None:
        ident = ExecutionId.solo("default")
        await engine.create_execution(CreateExecutionArgs(execution_id=ident, policy=RETRIED))
    handle = await engine.claim("default", (), ClaimPolicy("w", "w-1", 600_000))
    assert handle is not None
    return ident, handle


async def said(seen: Any) -> list[str]:
    """Texts with their attempt, and how attempts ended."""
    return [told(each) async for each in seen]


def told(each: StreamItem) -> str:
    return (
        f"{each.attempt} {each.closed_reason}"
        if isinstance(each, Closing)
        else f"{each[0]} {each[1].fields['payload']}"
    )


async def two_attempts(engine: Engine) -> tuple[ExecutionId, str]:
    """The first fails, the second ends well; and the id of the first frame."""
    ident, handle = await claimed(engine)
    first = await engine.append_frame(handle, Frame(b"a", OUT))
    await engine.append_frame(handle, Frame(b"live", OUT, mode=BestEffortLive(60_000)))
    await engine.fail(handle, "nope")
    _, handle = await claimed(engine, ident)
    await engine.append_frame(handle, Frame(b"b", OUT))
    await engine.complete(handle)
    return ident, first.frame_id


@pytest.mark.parametrize("read", [follow, read_now])
async def test_an_ended_execution_is_shown(engine: Engine, read: Any) -> None:
    ident, first = await two_attempts(engine)
    everything, kept = Visibility.All, Visibility.ExcludeBestEffort
    end = ["1 b", "1 attempt_success"]
    assert await said(read(engine, ident, Position(0, "0-0"), everything, only=False)) == [
        "0 a",
        "0 live",
        "0 attempt_failure",
        *end,
    ]
    assert await said(read(engine, ident, Position(0, first), kept, only=False)) == [
        "0 attempt_failure",
        *end,
    ]
    assert await said(read(engine, ident, Position(0, "0-0"), kept, only=True)) == [
        "0 a",
        "0 attempt_failure",
    ]
    assert await said(read(engine, ident, Position(1, "0-0"), kept, only=False)) == end


async def test_a_running_execution_is_followed(engine: Engine) -> None:
    ident, handle = await claimed(engine)
    await engine.append_frame(handle, Frame(b"a", OUT))
    assert await said(read_now(engine, ident, Position(0, "0-0"), Visibility.All, only=False)) == [
        "0 a",
        "0 None",
    ]
    seen = follow(engine, ident, Position(0, "0-0"), Visibility.All, only=False)
    assert told(await anext(seen)) == "0 a"
    waiting = asyncio.ensure_future(anext(seen))
    await engine.append_frame(handle, Frame(b'{"n":1}', OUT, mode=DurableSummary()))
    assert told(await waiting) == '0 {"n":1}'
    waiting = asyncio.ensure_future(anext(seen))
    await engine.fail(handle, "nope")
    assert told(await waiting) == "0 attempt_failure", (
        "the end of an attempt is told before there is another"
    )
    waiting = asyncio.ensure_future(anext(seen))
    _, handle = await claimed(engine, ident)
    await engine.append_frame(handle, Frame(b"b", OUT))
    assert told(await waiting) == "1 b"
    waiting = asyncio.ensure_future(said(seen))
    await engine.complete(handle)
    assert await waiting == ["1 attempt_success"]


async def test_executions_without_frames(engine: Engine) -> None:
    ident = ExecutionId.solo("default")
    await engine.create_execution(CreateExecutionArgs(execution_id=ident))
    assert await said(read_now(engine, ident, Position(0, "0-0"), Visibility.All, only=False)) == []
    waiting = asyncio.ensure_future(
        said(follow(engine, ident, Position(0, "0-0"), Visibility.All, only=False))
    )
    handle = await engine.claim("default", (), ClaimPolicy("w", "w-1", 600_000))
    assert handle is not None
    await engine.complete(handle)
    assert await waiting == ["0 attempt_success"]


# ---- as processes


class Writer:
    """See stream_writer.py. Returns from `does` when it is done."""

    def __init__(self, url: str, ident: str) -> None:
        run = [sys.executable, "-m", "tests.cli.stream_writer", url, ident]
        folder = Path(__file__).parents[2]
        self.process = subprocess.Popen(
            run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
        )
        assert self._heard() == b"ready\n"

    def does(self, *lines: str) -> None:
        for line in lines:
            assert self.process.stdin is not None
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
            assert self._heard() == b"done\n", line

    def _heard(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def stop(self) -> None:
        self.process.communicate(timeout=30)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "ff.db")
    found = database("tail")

    async def prepared() -> None:
        await (await PostgresBackend.connect(found, migrate=True)).close()

    asyncio.run(prepared())
    return found


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    made = Writer(url, IDENT)
    yield made
    made.stop()


def tail(url: str, *args: str) -> subprocess.Popen[str]:
    run = [sys.executable, "-m", "flowfabric.cli.main", "tail", IDENT, "--db", url, *args]
    env = {"PATH": "", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(
        run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", env=env
    )


def test_frames_of_another_process_are_shown(writer: Writer, url: str) -> None:
    """Each line is read before the next one is written."""
    following = tail(url)
    assert following.stdout is not None
    writer.does("claim", "out one\\n")
    assert following.stdout.readline() == "one\n"
    writer.does("err careful")
    assert following.stdout.readline() == "[stderr] careful\n"
    writer.does("out two ", "blob", 'sum {"n": 1}', "live three\\n")
    expected = [
        "two \n",
        "[blob] 3 bytes that are not text\n",
        '[summary 1] {"n": 1}\n',
        "[event] three\n",
    ]
    assert [following.stdout.readline() for _ in expected] == expected
    writer.does("fail", "claim", "out again")
    writer.does("complete")
    out, notes = following.communicate(timeout=30)
    assert (following.returncode, out) == (0, "again\n")
    assert notes.splitlines() == [
        "attempt 0 failed (attempt_failure)",
        "attempt 1 started",
        "attempt 1 succeeded (attempt_success)",
    ]


def test_an_interrupt_prints_the_command_to_continue(writer: Writer, url: str) -> None:
    following = tail(url, "--json")
    assert following.stdout is not None
    writer.does("claim", "out one")
    first = json.loads(following.stdout.readline())
    assert (first["attempt"], first["fields"]["payload"]) == (0, "one")
    following.send_signal(signal.SIGINT)
    out, notes = following.communicate(timeout=30)
    assert (following.returncode, out) == (130, "")
    assert (
        notes
        == f"to continue: flowfabric tail '{IDENT}' --after=0:{first['id']} --json --db {url}\n"
    )
    writer.does("live two", "out three", "complete")
    again = flowfabric(
        "tail", IDENT, f"--db={url}", f"--after=0:{first['id']}", "--json", "--no-live"
    )
    assert (again.returncode, again.stderr) == (0, "")
    frame, end = map(json.loads, again.stdout.splitlines())
    assert frame["fields"]["payload"] == "three" and frame["fields"]["mode"] == "durable"
    assert (end["attempt"], end["closed_reason"]) == (0, "attempt_success") and end["closed_at"] > 0


def test_no_follow_shows_the_frames_so_far(writer: Writer, url: str) -> None:
    done = flowfabric("tail", IDENT, "--db", url, "--no-follow")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "the execution is waiting\n")
    writer.does("claim", "out one", "out \\ntwo")
    done = flowfabric("tail", IDENT, "--no-follow", FF_URL=url)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "one\ntwo\n",
        "the execution is active\n",
    )
    open_end = flowfabric("tail", IDENT, "--db", url, "--no-follow", "--json").stdout.splitlines()[
        -1
    ]
    assert json.loads(open_end) == {"attempt": 0, "closed_at": None, "closed_reason": None}
    writer.does("complete")
    done = flowfabric("tail", IDENT, "--db", url, "--no-follow", "--attempt", "0")
    assert done.stderr == "attempt 0 succeeded (attempt_success)\n"


# ---- refusals


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((IDENT,), "or set FF_URL"),
        ((IDENT, "--db", "nowhere.db"), "nowhere.db: no such database file"),
        ((IDENT, "--db", "memory://"), "memory:// is visible to its own process only"),
        ((IDENT, "--db", "x.db", "--after", "soon"), "--after: expected the id of a frame"),
    ],
)
def test_refusals(args: tuple[str, ...], says: str) -> None:
    done = flowfabric("tail", *args)
    refused(done, says)


def test_unknown_ids_and_attempts(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"

    async def fill() -> ExecutionId:
        async with await SqliteBackend.new(str(path), dev=True) as engine:
            return (await two_attempts(engine))[0]

    ident = str(asyncio.run(fill()))
    before = path.read_bytes()
    done = flowfabric("tail", IDENT, "--db", str(path))
    refused(done, f"{IDENT}: no such execution in this database", 3)
    done = flowfabric("tail", ident, "--db", str(path), "--attempt", "2")
    refused(done, "--attempt: expected an attempt of this execution (0 to 1), got 2", 2)
    done = flowfabric("tail", ident, "--db", str(path), "--after", "7:1-0")
    refused(done, "--after: expected an attempt of this execution (0 to 1), got 7", 2)
    done = flowfabric("tail", ident, "--db", str(path), "--attempt", "-1")
    assert done.returncode == 2 and "--attempt" in done.stderr
    assert flowfabric("tail", ident, "--db", str(path)).stdout == "alive\nb\n"
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ff.db"]
