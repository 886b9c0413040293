"""`flowfabric events`: all channels merged, live, from a cursor."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flowfabric import Engine, SqliteBackend
from flowfabric.cli.events import CHANNELS, merge_feeds
from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.connect import PostgresBackend
from flowfabric.model.execution import ChangePriorityArgs
from flowfabric.testing import ManualClock
from tests.cli.commands import flowfabric, refused
from tests.cli.test_approvals import approve
from tests.cli.waits import POLICY, suspended
from tests.patience import patience, patient
from tests.postgres import database

SOON_S = 30


async def life(engine: Engine) -> None:
    """Eight events on four channels."""
    wait = await suspended(engine)
    await approve(engine, wait, "bob")
    await engine.change_priority(ChangePriorityArgs(execution_id=wait.execution, new_priority=3))
    (work,) = await engine.claim_many("releases", (), POLICY, 1)
    await engine.complete(work.handle)


def filled(path: Path) -> str:
    async def fill() -> None:
        async with await SqliteBackend.new(str(path), dev=True) as engine:
            await life(engine)

    asyncio.run(fill())
    return str(path)


def told(*args: str) -> list[dict[str, Any]]:
    done = flowfabric("events", "--json", *args)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_everything_that_happened_from_the_start(tmp_path: Path) -> None:
    where = filled(tmp_path / "ff.db")
    before = (tmp_path / "ff.db").read_bytes()
    found = told("--db", where, "--from", "start", "--limit", "8")
    assert sorted(
        (e["channel"], e.get("kind") or e.get("outcome") or e.get("effect")) for e in found
    ) == [
        ("completion", "Success"),
        ("completion", "resumable"),
        ("lease", "acquired"),
        ("lease", "acquired"),
        ("lease", "revoked"),
        ("lease", "revoked"),
        ("operator", "priority_changed"),
        ("signal", "Satisfied"),
    ]
    lines = flowfabric(
        "events", "--db", where, "--from", "start", "--limit", "8"
    ).stdout.splitlines()
    assert len(lines) == 8
    assert any(
        "priority_changed" in line and "old priority 0, new priority 3" in line for line in lines
    )
    assert (tmp_path / "ff.db").read_bytes() == before


def test_one_channel_from_a_cursor(tmp_path: Path) -> None:
    where = filled(tmp_path / "ff.db")
    first = told("--db", where, "--channel", "lease", "--from", "start", "--limit", "1")
    rest = told("--db", where, "--channel", "lease", "--from", first[0]["cursor"], "--limit", "3")
    assert [e["kind"] for e in first + rest] == ["acquired", "revoked", "acquired", "revoked"]


def test_only_a_namespace(tmp_path: Path) -> None:
    where = filled(tmp_path / "ff.db")
    found = told(
        "--db",
        where,
        "--namespace",
        "default",
        "--channel",
        "signal",
        "--channel",
        "operator",
        "--from",
        "start",
        "--limit",
        "2",
    )
    assert {e["channel"] for e in found} == {"signal", "operator"}


@asynccontextmanager
async def following(*args: str) -> AsyncIterator[asyncio.subprocess.Process]:
    run = [sys.executable, "-m", "flowfabric.cli.main", "events", "--json", *args]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*run, stdout=pipe, stderr=pipe, env={"PATH": ""})
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def seen(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(
        await asyncio.wait_for(process.stdout.readline(), patience(SOON_S))
    )
    return found


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_new_events_are_shown_until_ctrl_c(kind: str, tmp_path: Path) -> None:
    """What it shows first is there already, so that it is known to follow before anything else
    happens.
    """
    if kind == "sqlite":
        where = str(tmp_path / "ff.db")
        engine: Engine = await SqliteBackend.new(where, dev=True)
    else:
        where = database("events")
        engine = await PostgresBackend.connect(where, migrate=True)
    await life(engine)
    async with (
        following("--db", where, "--channel", "completion", "--from", "start") as process,
        patient(SOON_S),
    ):
        assert [(await seen(process))["outcome"] for _ in range(2)] == ["resumable", "Success"]
        await life(engine)
        assert [(await seen(process))["outcome"] for _ in range(2)] == ["resumable", "Success"]
        process.send_signal(signal.SIGINT)
        _, said = await process.communicate()
        assert (process.returncode, said) == (0, b"")
    await engine.close()


async def test_the_feed_orders_available_events_by_time(engine: Engine, clock: ManualClock) -> None:
    for _ in range(3):
        clock.advance(1)
        await life(engine)
    feeds = {name: getattr(engine, method)(BEGINNING) for name, method in CHANNELS.items()}
    merged = merge_feeds(feeds)
    found = [await asyncio.wait_for(anext(merged), patience(SOON_S)) for _ in range(24)]
    await merged.aclose()  # type: ignore[attr-defined]
    times = [event.at for _, event in found]
    assert times == sorted(times) and len(set(times)) == 3
    for name in CHANNELS:
        cursors = [event.cursor for channel, event in found if channel == name]
        assert cursors and cursors == sorted(set(cursors))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            ("--channel", "gossip"),
            "--channel: expected one of completion, lease, signal, operator, got 'gossip'",
        ),
        (
            ("--from", "yesterday", "--channel", "lease"),
            "--from: expected start or the cursor of an event, as --json shows it",
        ),
        (("--from", "01" * 9, "--channel", "lease"), "--from: expected start or the cursor"),
        (
            ("--from", BEGINNING.hex()),
            "--from: a cursor belongs to one channel; name it with --channel",
        ),
        (("--from", "02" + "ff" * 8, "--channel", "lease"), "--from: cursor: not an event cursor"),
    ],
)
def test_refusals(tmp_path: Path, args: tuple[str, ...], says: str) -> None:
    where = filled(tmp_path / "ff.db")
    done = flowfabric("events", "--db", where, *args)
    refused(done, says, 2)


def test_a_database_must_be_named() -> None:
    done = flowfabric("events")
    refused(done, "or set FF_URL", 2)


def test_without_following_it_ends_behind_the_last_event(tmp_path: Path) -> None:
    where = filled(tmp_path / "ff.db")
    said = flowfabric("events", "--db", where, "--from", "start", "--no-follow", "--json").stdout
    found = [json.loads(line) for line in said.splitlines()]
    assert {event["channel"] for event in found} >= {"completion", "lease"}
    assert [event["at"] for event in found] == sorted(event["at"] for event in found)
    few = flowfabric("events", "--db", where, "--from", "start", "--no-follow", "--limit", "2")
    assert (few.returncode, len(few.stdout.splitlines())) == (0, 2)
