"""`flowfabric history`: the timeline, errors, and no writes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from flowfabric import CreateExecutionArgs, Engine, ExecutionId, HistoryEntry, SubmitFlowArgs, What
from flowfabric.cli.history import Timeline, render, span
from flowfabric.connect import PostgresBackend, SqliteBackend
from tests.cli.commands import flowfabric, refused
from tests.cli.test_approvals import approve
from tests.cli.waits import POLICY, Wait, suspended
from tests.postgres import database

UNKNOWN = "{fp:0}:11111111-1111-4111-8111-111111111111"


async def life(engine: Engine) -> Wait:
    wait = await suspended(engine)
    await approve(engine, wait, "bob")
    (work,) = await engine.claim_many("releases", (), POLICY, 1)
    await engine.complete(work.handle)
    return wait


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"

    async def fill() -> Wait:
        async with await SqliteBackend.new(str(path), dev=True) as engine:
            return await life(engine)

    wait = asyncio.run(fill())
    before = path.read_bytes()
    done = flowfabric("history", str(wait.execution), "--db", f"sqlite:///{path}")
    assert (done.returncode, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    assert first.startswith("from 20") and first.endswith(" UTC")
    assert [line.split()[4] for line in lines] == [
        "created",
        "claimed",
        "suspended",
        "signalled",
        "resumed",
        "claimed",
        "ended",
    ]
    assert "lane releases" in lines[0] and "priority 0" in lines[0]
    assert "attempt 0, worker w-1, epoch 1, lease " in lines[1]
    assert "waitpoints go-live, reason waiting_for_approval" in lines[2]
    assert lines[3].endswith("effect resume_condition_satisfied, source bob, signal approved")
    assert lines[-1].endswith("attempt 0, outcome success")
    told = [
        json.loads(line)
        for line in flowfabric(
            "history", str(wait.execution), "--json", FF_URL=str(path)
        ).stdout.splitlines()
    ]
    assert [each["what"] for each in told] == [line.split()[4] for line in lines]
    assert told[0]["execution_id"] == str(wait.execution) and told[-1]["details"] == {
        "outcome": "success"
    }
    assert wait.token[19:] not in done.stdout + json.dumps(told)
    short = flowfabric(
        "history", str(wait.execution), "--db", str(path), "--limit", "2"
    ).stdout.splitlines()
    assert len(short) == 4 and short[-1] == "showing the first 2; use --limit for more"
    assert path.read_bytes() == before and sorted(p.name for p in tmp_path.iterdir()) == ["ff.db"]


async def test_the_command_on_postgres() -> None:
    engine = await PostgresBackend.connect(database("history"), migrate=True)
    wait = await life(engine)
    done = await asyncio.to_thread(
        flowfabric, "history", str(wait.execution), "--db", engine.store.options.url
    )
    assert "signalled" in done.stdout and "outcome success" in done.stdout, (
        done.stdout + done.stderr
    )
    await engine.close()


def test_a_flow_names_its_members(tmp_path: Path) -> None:
    flow = uuid4()
    member = ExecutionId.for_flow(flow)

    async def fill() -> None:
        async with await SqliteBackend.new(str(tmp_path / "ff.db"), dev=True) as engine:
            args = SubmitFlowArgs(
                flow_id=flow, nodes=[CreateExecutionArgs(execution_id=member)], edges=[]
            )
            await engine.submit_flow(args)

    asyncio.run(fill())
    lines = flowfabric("history", str(flow), "--db", str(tmp_path / "ff.db")).stdout.splitlines()
    assert " flow      flow_created" in lines[1] and f" {str(member)[-8:]}  created" in lines[2]


def entry(at_ms: int, what: What, **details: str | int) -> HistoryEntry:
    return HistoryEntry(at_ms, what, ExecutionId.of(0, UUID(int=1)), None, details)


def test_times_are_counted_from_the_first_and_from_the_one_before() -> None:
    told = Timeline()
    lines = [
        render(entry(at, What.RENEWED), told, members=False)[-1].plain
        for at in (5, 5, 1_505, 61_505)
    ]
    assert [" ".join(line.split()[:-1]) for line in lines] == [
        "0 ms +0 ms",
        "0 ms +0 ms",
        "1.5 s +1.5 s",
        "1 min 1 s +1 min",
    ]


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_940, "59.9 s"),
        (60_000, "1 min"),
        (200_000, "3 min 20 s"),
        (3_600_000, "1 h"),
        (90_000_000, "1 d 1 h"),
        (-1_500, "-1.5 s"),
    ],
)
def test_spans(ms: int, said: str) -> None:
    assert span(ms) == said


def test_nothing_a_user_wrote_breaks_out() -> None:
    line = render(
        entry(10**30, What.ENDED, reason="a\x1b[31m\nb", outcome="failed"), Timeline(), members=True
    )
    assert "\x1b" not in line[-1].plain and "\n" not in line[-1].plain
    assert line[0].plain == f"from {10**30} ms"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((UNKNOWN, "--db", "nowhere.db"), "nowhere.db: no such database file"),
        ((UNKNOWN,), "or set FF_URL"),
    ],
)
def test_refusals(args: tuple[str, ...], says: str) -> None:
    done = flowfabric("history", *args)
    refused(done, says)


def test_unknown_ones(tmp_path: Path) -> None:
    async def fill() -> None:
        async with await SqliteBackend.new(str(tmp_path / "ff.db"), dev=True):
            pass

    asyncio.run(fill())
    for ident in (UNKNOWN, str(uuid4())):
        done = flowfabric("history", ident, "--db", str(tmp_path / "ff.db"))
        refused(done, f"{ident}: no such execution or flow in this database", 3)
    for ident in ("nonsense", "{fp:x}:y", "0" * 30 + "_0"):
        done = flowfabric("history", ident, "--db", str(tmp_path / "ff.db"))
        refused(done, "a uuid, its first 8", 2)
