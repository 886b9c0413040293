"""`flowfabric top` and `flowfabric tail` in a real terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path

from flowfabric import ExecutionId, Frame, FrameKind, Handle
from flowfabric.connect import SqliteBackend
from flowfabric.engine.engine import Engine
from flowfabric.model.lease import ClaimPolicy
from tests.cli.terminal import needs_tmux, terminal
from tests.engine.helpers import create, running

pytestmark = needs_tmux
BY = ClaimPolicy("w1", "w1-i1", 600_000)


async def _opened(path: Path) -> Engine:
    return await SqliteBackend.new(str(path), dev=True)


async def _prepare(path: Path) -> tuple[ExecutionId, Handle]:
    async with await _opened(path) as engine:
        await create(engine, lane_id="exports", execution_kind="export_csv")
        return await running(engine, BY, lane_id="mail", execution_kind="send_mail")


async def _lane_state(path: Path, name: str) -> str:
    async with await _opened(path) as engine:
        lane = await engine.read_lane(name)
        assert lane is not None
        return lane.state


async def _outcome(path: Path, ident: ExecutionId) -> tuple[str, str | None]:
    async with await _opened(path) as engine:
        found = await engine.read_outcome(ident)
        assert found is not None
        return found.public_state, found.cancellation_reason


async def _append(path: Path, handle: Handle, text: bytes) -> None:
    async with await _opened(path) as engine:
        await engine.append_frame(handle, Frame(text, FrameKind.Stdout))


async def _complete(path: Path, handle: Handle) -> None:
    async with await _opened(path) as engine:
        await engine.complete(handle, b"1")


def test_top_shows_a_deployment_and_acts_on_it(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    ident, _ = asyncio.run(_prepare(path))
    said = ("top", "--db", str(path), "--operator", "ada", "--interval", "0.5")
    with terminal(*said, folder=tmp_path) as shown:
        screen = shown.until("1 Lanes (2)", "3 Running (1)", "send_mail", str(ident.uuid))
        assert "no worker is alive" in screen and "{fp:" not in screen
        shown.press("p")
        shown.until("Pause lane exports?")
        shown.press("y")
        shown.until("paused")
        assert asyncio.run(_lane_state(path, "exports")) == "paused"
        shown.press("3", "Enter")
        shown.until("History", "claimed")
        shown.press("c")
        shown.until("Cancel run")
        shown.press("Enter")
        shown.until("cancelled")
        assert asyncio.run(_outcome(path, ident)) == ("cancelled", "by ada in flowfabric top")
        shown.press("q")
        shown.until("code=0")


def test_top_in_a_small_terminal(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    asyncio.run(_prepare(path))
    with terminal("top", "--db", str(path), folder=tmp_path, width=50, height=12) as shown:
        shown.until("The terminal has 50 x 12 characters")
        shown.press("q")
        shown.until("code=0")


def test_top_names_an_unreachable_store_before_it_takes_the_terminal(tmp_path: Path) -> None:
    with terminal("top", "--db", "missing.db", folder=tmp_path) as shown:
        assert "error: missing.db: no such database" in shown.until("code=4")


def test_tail_follows_the_output_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    ident, handle = asyncio.run(_prepare(path))
    asyncio.run(_append(path, handle, b"one\n"))
    with terminal("tail", str(ident.uuid), "--db", str(path), folder=tmp_path) as shown:
        shown.until("one")
        asyncio.run(_append(path, handle, b"two\n"))
        shown.until("one\ntwo")
        asyncio.run(_complete(path, handle))
        assert "attempt 0 succeeded" in shown.until("code=0")


def test_tail_is_interrupted_and_says_how_to_continue(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    ident, handle = asyncio.run(_prepare(path))
    asyncio.run(_append(path, handle, b"one\n"))
    with terminal("tail", str(ident.uuid), "--db", str(path), folder=tmp_path) as shown:
        shown.until("one")
        shown.press("C-c")
        assert "to continue: flowfabric tail" in shown.until("code=130")
