"""`flowfabric approvals`: output, secrecy of tokens, and no writes."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from uuid import uuid4

import pytest

from flowfabric import Count, CountKind, DeliverSignalArgs, Engine, TimeoutBehavior
from flowfabric.cli.approvals import open_waitpoints, render, span
from flowfabric.connect import PostgresBackend, SqliteBackend
from flowfabric.model.approval import ApprovalListed
from flowfabric.model.waitpoint import OperatorOnly, TimeoutOnly
from flowfabric.testing import ManualClock
from tests.cli.commands import flowfabric, refused
from tests.cli.waits import POLICY, Wait, suspended
from tests.postgres import database

TWO = Count(2, CountKind.DISTINCT_SOURCES, ("go-live",), "approved")


async def approve(engine: Engine, wait: Wait, who: str) -> None:
    await engine.deliver_signal(
        DeliverSignalArgs(
            execution_id=wait.execution,
            waitpoint_id=wait.waitpoint,
            signal_id=uuid4(),
            waitpoint_token=wait.token,
            signal_name="approved",
            source_identity=who,
        )
    )


async def only(engine: Engine) -> tuple[ApprovalListed, str]:
    ((found,), more) = await open_waitpoints(engine, 10)
    assert not more
    return found, "\n".join(line.plain for line in render(found))


async def test_open_waitpoints_are_shown(engine: Engine, clock: ManualClock) -> None:
    wait = await suspended(
        engine, TWO, timeout_at=clock() + 3_600_000, timeout_behavior=TimeoutBehavior.CANCEL
    )
    await approve(engine, wait, "alice")
    clock.advance(180_000)
    found, said = await only(engine)
    assert said.splitlines()[1] == "go-live  deploy on lane releases, created 3 min ago"
    assert "waits for  approved, 1 of 2 sources so far (waiting_for_approval)" in said
    assert "expires    in 57 min, then it is cancelled" in said
    assert f"execution  {wait.execution.uuid}" in said and f"waitpoint  {wait.waitpoint}" in said
    assert f"token      {wait.token[:19]}..." in said
    assert wait.token[19:] not in said + repr(found)


async def test_a_waitpoint_created_before_its_suspension(
    engine: Engine, clock: ManualClock
) -> None:
    await suspended(engine)
    await engine.resume_execution((await open_waitpoints(engine, 1))[0][0].execution_id)  # type: ignore[arg-type]
    handle = await engine.claim("releases", (), POLICY)
    assert handle is not None
    made = await engine.create_waitpoint(handle, "callback", 60_000)
    found, said = await only(engine)
    assert found.waitpoint_id == str(made.waitpoint_id)
    assert "no execution yet; it was created ahead" in said and "expires    in 1 min\n" in said
    clock.advance(90_000)
    assert "expires    30 s ago; the next loop cycle ends it" in (await only(engine))[1]


async def test_an_escalated_suspension_no_longer_expires(
    engine: Engine, clock: ManualClock
) -> None:
    wait = await suspended(
        engine, timeout_at=clock() + 1_000, timeout_behavior=TimeoutBehavior.ESCALATE
    )
    assert "in 1 s, then it waits for an operator" in (await only(engine))[1]
    clock.advance(2_000)
    await engine.expire_suspension(wait.execution)
    said = (await only(engine))[1]
    assert "approved (waiting_for_operator_review)" in said and "expires    never" in said


async def test_those_that_wait_for_no_signal(engine: Engine, clock: ManualClock) -> None:
    await suspended(engine, OperatorOnly())
    assert "waits for  an operator (waiting_for_approval)" in (await only(engine))[1]
    await engine.resume_execution((await open_waitpoints(engine, 1))[0][0].execution_id)  # type: ignore[arg-type]
    await engine.complete(await engine.claim("releases", (), POLICY))  # type: ignore[arg-type]
    await suspended(engine, TimeoutOnly(), timeout_at=clock() + 90_000)
    assert "waits for  its time" in (await only(engine))[1]


async def test_nothing_a_user_wrote_breaks_out(sqlite: SqliteBackend) -> None:
    nasty = "a\x1b[31m\nb"
    await suspended(sqlite, kind=nasty, key=nasty)
    found, said = await only(sqlite)
    assert "\x1b" not in said and len(said.splitlines()) == 7
    assert json.loads(json.dumps(found.waitpoint_key)) == nasty


@pytest.mark.parametrize(
    ("ms", "says"),
    [
        (0, "0 s"),
        (999, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (7_200_000, "2 h"),
        (200_000_000, "2 d"),
    ],
)
def test_spans(ms: int, says: str) -> None:
    assert span(ms) == says


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"

    async def fill(count: int) -> list[Wait]:
        found = []
        async with await SqliteBackend.new(str(path), dev=True) as engine:
            for _ in range(count):
                found.append(
                    await suspended(engine, timeout_at=int(time.time() * 1000) + 90_000_000)
                )
                await asyncio.sleep(0.005)
        return found

    asyncio.run(fill(0))
    assert flowfabric("approvals", "--db", str(path)).stdout == "no open waitpoints\n"
    waits = asyncio.run(fill(3))
    before = path.read_bytes()
    done = flowfabric("approvals", "--db", f"sqlite:///{path}", "--limit", "2")
    assert (done.returncode, done.stderr) == (0, "")
    first = (
        "2 open waitpoints, oldest first; use --limit for more\n\ngo-live  deploy on lane "
        "releases, created "
    )
    assert done.stdout.startswith(first)
    assert "in 1 d, then it fails" in done.stdout and str(waits[2].execution) not in done.stdout
    assert flowfabric("approvals", "--db", str(path)).stdout.startswith(
        "3 open waitpoints, oldest first\n"
    )
    listed = flowfabric("approvals", "--db", str(path), "--json").stdout
    assert [json.loads(line)["execution_id"] for line in listed.splitlines()] == [
        str(wait.execution) for wait in waits
    ]
    assert all(wait.token[19:] not in listed + done.stdout for wait in waits)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ff.db"]


async def test_the_command_on_postgres() -> None:
    engine = await PostgresBackend.connect(database("approvals"), migrate=True)
    wait = await suspended(engine)
    done = await asyncio.to_thread(flowfabric, "approvals", engine.store.options.url)
    assert "1 open waitpoint, oldest first" in done.stdout and str(wait.waitpoint) in done.stdout, (
        done.stdout + done.stderr
    )
    told = await asyncio.to_thread(
        flowfabric,
        "signal",
        str(wait.execution),
        str(wait.waitpoint),
        engine.store.options.url,
        given=wait.token,
    )
    assert "the execution resumes" in told.stdout, told.stdout + told.stderr
    await engine.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nowhere.db", "nowhere.db: no such database file"),
        ("memory://", "memory:// is visible to its own process only"),
        ("mysql://there", "not supported"),
    ],
)
def test_refusals(url: str, says: str) -> None:
    done = flowfabric("approvals", "--db", url)
    refused(done, says)
