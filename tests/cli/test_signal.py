"""`flowfabric signal`: by token and as an operator, invalid input, secrecy of tokens."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flowfabric import Count, CountKind
from flowfabric.connect import SqliteBackend
from flowfabric.model.waitpoint import Condition
from tests.cli.commands import flowfabric, refused
from tests.cli.waits import POLICY, SECRET, Wait, suspended

TWO = Count(2, CountKind.DISTINCT_SOURCES, ("go-live",), "approved")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ff.db"


def waiting(path: Path, condition: Condition | None = None) -> Wait:
    async def fill() -> Wait:
        async with await SqliteBackend.new(str(path), dev=True) as engine:
            return await suspended(engine, condition)

    return asyncio.run(fill())


def signal(path: Path, wait: Wait, *options: str, given: str | bytes = "", **env: str) -> str:
    done = flowfabric(
        "signal",
        str(wait.execution),
        str(wait.waitpoint),
        "--db",
        str(path),
        *options,
        given=given,
        **env,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert wait.token not in done.stdout
    return done.stdout


def heard(path: Path) -> list[tuple[str, str, str, bytes | None]]:
    async def ask() -> list[tuple[str, str, str, bytes | None]]:
        async with await SqliteBackend.new(str(path), dev=True) as engine:
            handle = await engine.claim("releases", (), POLICY)
            assert handle is not None
            found = await engine.observe_signals(handle)
            return [(s.signal_name, s.source_type, s.source_identity, s.payload) for s in found]

    return asyncio.run(ask())


def test_by_token_from_each_place(path: Path) -> None:
    wait = waiting(path, Count(3, CountKind.DISTINCT_SOURCES, ("go-live",), "approved"))
    assert "recorded; the execution still waits" in signal(
        path, wait, "--source", "alice", "--token", wait.token
    )
    assert "repeats an earlier signal" in signal(
        path, wait, "--source", "alice", FF_WAITPOINT_TOKEN=wait.token
    )
    assert "does not accept this name" in signal(
        path, wait, "--source", "eve", "--name", "maybe", given=wait.token
    )
    signal(path, wait, "--source", "bob", given=f"  {wait.token}\nmore\n")
    said = signal(
        path,
        wait,
        "--source",
        "carol",
        "--payload",
        '{"ticket": 7}',
        "--token",
        wait.token,
        FF_WAITPOINT_TOKEN="k1:no",
    )
    assert "the condition is satisfied; the execution resumes" in said
    approved = [("approved", "user", who, None) for who in ("alice", "bob")]
    assert heard(path) == [*approved, ("approved", "user", "carol", b'{"ticket": 7}')]


def test_as_an_operator(path: Path) -> None:
    wait = waiting(path)
    assert "recorded; the execution still waits" in signal(
        path, wait, "--operator", "--name", "rejected"
    )
    assert "already delivered as signal" in signal(path, wait, "--operator", "--name", "rejected")
    assert "the execution resumes" in signal(
        path, wait, "--operator", FF_WAITPOINT_TOKEN="not looked at"
    )
    assert "already delivered" in signal(path, wait, "--operator")
    assert heard(path) == [("approved", "operator", "", None)]


def test_ahead_of_the_suspension(path: Path) -> None:
    async def create() -> Wait:
        async with await SqliteBackend.new(str(path), dev=True) as engine:
            wait = await suspended(engine)
            await engine.resume_execution(wait.execution)
            handle = await engine.claim("releases", (), POLICY)
            assert handle is not None
            made = await engine.create_waitpoint(handle, "callback")
            return Wait(wait.execution, made.waitpoint_id, made.hmac_token)

    wait = asyncio.run(create())
    assert "stored until the execution suspends" in signal(path, wait, given=wait.token)


NOBODY = "{fp:7}:6f1c1f0e-8f6b-4f7e-9a53-3c1e2f8f0d11"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("TOKEN", "WP", "--db", "DB"), "EXECUTION: expected a uuid, its first 8 or more"),
        (("EX", "TOKEN", "--db", "DB"), "WAITPOINT: expected the UUID of a waitpoint"),
        (("EX", "0" * 30 + "_0", "--db", "DB"), "WAITPOINT: expected the UUID of a waitpoint"),
        (("EX", "WP", "TOKEN", "more"), "too many arguments"),
        (
            ("EX", "WP", "--db", "nowhere.db", "--token", "TOKEN"),
            "nowhere.db: no such database file",
        ),
        (
            ("EX", "WP", "--db", "memory://", "--token", "TOKEN"),
            "memory:// is visible to its own process only",
        ),
        (("EX", "WP", "--db", "OTHER", "--token", "TOKEN"), "not a FlowFabric database"),
        ((NOBODY, "WP", "--db", "DB", "--token", "TOKEN"), "EXECUTION: no such execution"),
        (
            ("EX", "WP", "--db", "DB"),
            (
                "no token: pass it in --token, in FF_WAITPOINT_TOKEN or on standard input, or use "
                "--operator"
            ),
        ),
        (("EX", "WP", "--db", "DB", "--token", " "), "no token"),
        (
            ("EX", "WP", "--db", "DB", "--token", "TOKEN0"),
            "the token was refused (invalid_token): it does not belong to this waitpoint",
        ),
        (
            ("EX", NOBODY[-36:], "--db", "DB", "--token", "TOKEN"),
            "the token was refused (invalid_token)",
        ),
        (("EX", NOBODY[-36:], "--db", "DB", "--operator"), "waitpoint not found"),
        (
            ("EX", "WP", "--db", "DB", "--token", "TOKEN", "--operator"),
            "only one of them is accepted; an operator needs no token",
        ),
        (("EX", "WP", "--db", "DB", "--operator", "--payload", "1"), "--operator and --payload"),
        (
            ("EX", "WP", "--db", "DB", "--token", "TOKEN", "--payload", "{TOKEN"),
            "--payload: expected JSON, such as",
        ),
        (
            ("EX", "WP", "--db", "DB", "--token", "TOKEN", "--payload", "[" * 60_000),
            "--payload: expected JSON, such as",
        ),
        (
            ("EX", "WP", "--db", "DB", "--token", "TOKEN", "--payload", f'"{"x" * 65_535}"'),
            "payload: at most 65536 bytes, got 65537",
        ),
        (
            ("EX", "WP", "--db", "DB", "--token", "TOKEN", "--name", ""),
            "--name: expected the name of the signal",
        ),
        (("EX", "WP", "--db", "DB", "--token", "TOKEN", "--name", "n" * 5_000), "signal_name"),
        (("EX", "WP", "--db", "DB", "--operator", "--name", "n" * 300), "signal_name"),
        (
            ("EX", "WP", "--db", "DB", "--token", "TOKEN", "--source", "s" * 5_000),
            "source_identity",
        ),
    ],
)
def test_refusals(path: Path, tmp_path: Path, args: tuple[str, ...], says: str) -> None:
    wait = waiting(path)
    (tmp_path / "other.db").write_bytes(b"")
    names = {
        "EX": str(wait.execution),
        "WP": str(wait.waitpoint),
        "DB": str(path),
        "OTHER": str(tmp_path / "other.db"),
    }
    done = flowfabric("signal", *(names.get(arg, arg.replace("TOKEN", wait.token)) for arg in args))
    refused(done, says)
    assert wait.token not in done.stderr and wait.token[3:] not in done.stderr
    assert not Path("nowhere.db").exists()


def test_a_token_in_the_place_of_the_url_is_not_repeated(path: Path) -> None:
    wait = waiting(path)
    done = flowfabric(
        "signal", str(wait.execution), str(wait.waitpoint), wait.token, FF_URL=str(path)
    )
    refused(done, "too many arguments", 2)
    assert wait.token not in done.stderr


@pytest.mark.parametrize("given", [b"\xff\xfe:" + b"0" * 64, b"k1:" + b"0" * 4_000, b"\n", b"\x00"])
def test_something_else_on_standard_input(path: Path, given: bytes) -> None:
    wait = waiting(path)
    done = flowfabric(
        "signal", str(wait.execution), str(wait.waitpoint), "--db", str(path), given=given
    )
    refused(done, "token")


def test_a_closed_waitpoint_refuses_signals(path: Path) -> None:
    wait = waiting(path)
    signal(path, wait, given=wait.token)
    done = flowfabric(
        "signal", str(wait.execution), str(wait.waitpoint), "--db", str(path), given=wait.token
    )
    refused(done, "target_not_signalable: the execution does not wait", 1)


def test_a_token_of_a_retired_key(path: Path) -> None:
    wait = waiting(path)

    async def rotate() -> None:
        async with await SqliteBackend.new(str(path), dev=True) as engine:
            await engine.rotate_waitpoint_hmac_secret_all("k2", SECRET[::-1], 0)
            await asyncio.sleep(0.01)

    asyncio.run(rotate())
    done = flowfabric(
        "signal", str(wait.execution), str(wait.waitpoint), "--db", str(path), given=wait.token
    )
    assert (
        "the token was refused (token_expired): its signing key has been rotated out" in done.stderr
    )
    done = flowfabric(
        "signal", str(wait.execution), str(wait.waitpoint), "--db", str(path), "--operator"
    )
    assert (
        "the token was refused (token_expired): the token of the waitpoint has expired"
        in done.stderr
    )
