"""Actions on executions by ids and by filters, and the account of what they did."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

from flowfabric.model.search import ExecutionFilter
from flowfabric.model.state import PublicState
from tests.cli.commands import flowfabric, refused
from tests.cli.processes import PROGRAM
from tests.cli.targets import POLICY, Target, create, fill, ident, on_every_target, target
from tests.patience import patience
from tests.sdk.processes import eventually


async def said(found: Target, *args: str, code: int = 0) -> str:
    done = await asyncio.to_thread(flowfabric, *args, **found.env)
    assert done.returncode == code, done
    return done.stdout + done.stderr


async def states(found: Target) -> list[str]:
    page = await found.engine.find_executions(ExecutionFilter(), oldest_first=True)
    return [each.public_state for each in page.items]


@on_every_target
async def test_actions_by_filters_and_by_ids(kind: str, tmp_path: Path) -> None:
    async with target(kind, tmp_path, "actions") as found:
        await fill(found.engine)
        dry = await said(found, "cancel", "--state", "waiting", "--dry-run")
        assert dry == "dry run: would cancel 2 executions; nothing was changed\n"
        assert await said(found, "priority", "--to", "7", "--task", "render", "--yes") == (
            "changed the priority of 1 execution\n"
        )
        moved = await said(found, "move", "--to", "slow", "00000005", "--reason", "too many")
        assert moved == "moved 1 execution\n"
        summary = await found.engine.read_execution_summary(ident(5))
        assert summary is not None and (summary.lane_id, summary.priority) == ("slow", 7)
        operator = ("events", "--from", "start", "--channel", "operator", "--limit", "2")
        assert "reason too many" in await said(found, *operator)
        assert await said(found, "release", "00000004") == "released 1 execution\n"
        assert await said(found, "cancel", "--lane", "slow,", "--yes") == (
            "no executions match; nothing was changed\n"
        )
        assert await said(found, "cancel", "--lane", "slow", "--yes") == "cancelled 1 execution\n"
        assert await said(found, "retry", "--error", "ConnectionError", "--yes") == (
            "retried 1 execution\n"
        )
        assert await said(found, "delete", "00000001", "--yes") == "deleted 1 execution\n"
        assert await states(found) == ["waiting", "cancelled", "waiting", "cancelled", "waiting"]
        jobs = (await said(found, "bulk", "list")).splitlines()
        assert len(jobs) == 6 and "would cancel 2 executions" in jobs[-1]
        job = jobs[1].split()[0]
        assert "retried 1 execution" in await said(found, "bulk", "show", job)


async def test_each_refusal_is_reported_and_the_rest_is_done(tmp_path: Path) -> None:
    async with target("sqlite", tmp_path) as found:
        await fill(found.engine)
        partly = await said(found, "cancel", "00000005", "00000001", "00000009", code=6)
        assert "cancelled 1 execution; 2 refused\n" in partly
        assert "00000001: " in partly and "already terminal" in partly
        assert "00000009: no such execution in this database" in partly
        assert "cancelled 0 executions; 1 refused" in await said(
            found, "cancel", "00000001", code=1
        )
        assert "no such execution" in await said(found, "cancel", "00000009", code=3)
        assert "retry takes failed and expired" in await said(found, "retry", "00000001", code=1)
        assert await said(found, "replay", "00000001") == "replayed 1 execution\n"
        handle = await found.engine.claim("default", (), POLICY)
        assert handle is not None
        assert await said(found, "revoke", "--state", "active", "--yes") == "revoked 1 execution\n"
        dry = await said(found, "revoke", "--state", "active", "--dry-run")
        assert "nothing was changed" in dry
        for args, says in (
            (("cancel",), "ID: expected ids, or filters such as"),
            (("cancel", "00000001", "--lane", "x"), "ID and --lane: name executions by"),
            (("cancel", "--lane", "x"), "--yes: needed for cancel by filters"),
            (("delete", "00000001"), "--yes: needed without a terminal"),
            (("priority", "00000001"), "Missing option '--to'"),
            (("move", "--to", "\u00e9", "--lane", "x", "--yes"), "printable ASCII"),
        ):
            refused(await asyncio.to_thread(flowfabric, *args, **found.env), says, 2)


async def test_restart_from_a_step_that_is_not_there(tmp_path: Path) -> None:
    async with target("sqlite", tmp_path) as found:
        await fill(found.engine)
        told = await said(found, "restart", "--from", "charge", "00000001", code=3)
        assert "step 'charge' not found" in told and "restarted 0 executions; 1 refused" in told


async def test_an_answer_on_a_terminal_decides(tmp_path: Path) -> None:
    async with target("sqlite", tmp_path) as found:
        await fill(found.engine)
        no = await asyncio.to_thread(_answered, found, "n\n")
        assert no.returncode == 1 and "cancel 2 executions? [y/N]" in no.stderr
        assert "nothing was changed" in no.stderr and (await states(found)).count("waiting") == 2
        yes = await asyncio.to_thread(_answered, found, "y\n")
        assert (yes.returncode, yes.stdout.lstrip()) == (0, "cancelled 2 executions\n")


def _answered(found: Target, answer: str) -> subprocess.CompletedProcess[str]:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer.encode())
        return subprocess.run(
            [*PROGRAM, "cancel", "--state", "waiting"],
            stdin=theirs,
            capture_output=True,
            text=True,
            env={**os.environ, **found.env},
            timeout=patience(60),
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)


async def test_an_interrupted_command_leaves_a_job_that_can_go_on(tmp_path: Path) -> None:
    """The server runs no loops, so the job stays where it is."""
    async with target("server", tmp_path, loops=False) as found:
        await fill(found.engine)
        command = await asyncio.create_subprocess_exec(
            *PROGRAM,
            *("cancel", "--state", "waiting", "--yes"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **found.env},
        )

        async def started() -> bool:
            return bool((await found.engine.list_bulk()).items)

        await eventually(started)
        command.send_signal(signal.SIGINT)
        out, err = await command.communicate()
        (job,) = (await found.engine.list_bulk()).items
        assert (command.returncode, out) == (130, b""), err
        assert f"`flowfabric bulk stop {job.job_id}`".encode() in err
        assert b"interrupted, 0 changed so far" in err
        store = Target(found.engine, {"FF_URL": str(tmp_path / "ff.db")})
        assert "no executions match" in await said(store, "bulk", "show", str(job.job_id))
        assert await said(store, "bulk", "run", str(job.job_id)) == "cancelled 2 executions\n"
        assert (await states(found)).count("cancelled") == 3
        unknown = await asyncio.to_thread(
            flowfabric, "bulk", "stop", str(ident(1).uuid), **store.env
        )
        refused(unknown, "no such bulk job", 3)


async def test_a_stopped_job_is_partly_done(tmp_path: Path) -> None:
    async with target("server", tmp_path, loops=False) as found:
        await fill(found.engine)
        command = asyncio.create_task(said(found, "cancel", "--state", "waiting", "--yes", code=6))

        async def stopped() -> bool:
            jobs = (await found.engine.list_bulk()).items
            for job in jobs:
                await found.engine.stop_bulk(job.job_id)
            return bool(jobs)

        await eventually(stopped)
        assert "nothing was changed" in await command


async def _operator(found: Target) -> str:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *("cancel", "--state", "waiting", "--yes"),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **found.env},
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_two_operators_at_once_change_each_execution_once(tmp_path: Path) -> None:
    async with target("postgres", tmp_path, "operators") as found:
        for n in range(1, 61):
            await create(found.engine, n)
        told = await asyncio.gather(*(_operator(found) for _ in range(2)))
        changed = [re.findall(r"cancelled (\d+) execution", text) for text in told]
        assert sum(int(number) for numbers in changed for number in numbers) == 60
        assert set(await states(found)) == {PublicState.CANCELLED}
