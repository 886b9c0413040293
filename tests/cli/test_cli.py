"""The command in real processes with real files."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from flowfabric.connect import SqliteBackend
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from tests.cli.commands import refused


def flowfabric(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flowfabric.cli.main", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


async def filled(path: Path) -> None:
    engine = await SqliteBackend.new(str(path), dev=True)
    for _ in range(3):
        await engine.create_execution(CreateExecutionArgs(execution_id=ExecutionId.solo("default")))
    for _ in range(2):
        handle = await engine.claim("default", (), ClaimPolicy("w", "w-1"))
        assert handle is not None
        await engine.complete(handle)
    await engine.close()


@pytest.mark.xdist_group("processes")
def test_demo_survives_its_kill(tmp_path: Path) -> None:
    kept = tmp_path / "demo.db"
    done = flowfabric("demo", "--keep", str(kept))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed worker-2" in done.stdout
    assert "No job lost, no job run twice." in done.stdout
    report = json.loads(flowfabric("verify", "--db", str(kept), "--json").stdout)
    assert (report["created"], report["completed_once"], report["violations"]) == (200, 200, [])
    assert report["taken_over"] > 0


def test_demo_refuses_to_overwrite(tmp_path: Path) -> None:
    taken = tmp_path / "demo.db"
    taken.write_bytes(b"precious")
    done = flowfabric("demo", "--keep", str(taken))
    assert done.returncode == 2
    assert taken.read_bytes() == b"precious"


async def test_verify_of_a_healthy_database(tmp_path: Path) -> None:
    path = tmp_path / "ff.db"
    await filled(path)
    before = path.read_bytes()
    done = flowfabric("verify", "--db", f"sqlite:///{path}", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "created": 3,
        "completed_once": 2,
        "taken_over": 0,
        "not_ended": 1,
        "done_twice": 0,
        "violations": [],
    }
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "invariant"),
    [
        (
            "INSERT INTO ff_completion_event (execution_id, outcome, occurred_at_ms, "
            "partition_key, namespace) SELECT execution_id, outcome, occurred_at_ms, "
            "partition_key, namespace FROM ff_completion_event LIMIT 1",
            "I2",
        ),
        ("UPDATE ff_exec_core SET lease_epoch = 0", "I4"),
        (
            "UPDATE ff_lease_event SET lease_epoch = lease_epoch + 7 WHERE event_type = 'revoked'",
            "I5",
        ),
        ("DELETE FROM ff_attempt", "I7"),
        (
            "UPDATE ff_exec_core SET public_state = 'failed' WHERE lifecycle_phase = 'terminal'",
            "I8",
        ),
        (
            "UPDATE ff_exec_core SET eligibility_state = 'eligible_now' WHERE lifecycle_phase = "
            "'terminal'",
            "I8",
        ),
        ("DELETE FROM ff_lease_event WHERE event_type = 'revoked'", "I11"),
        ("UPDATE ff_lease_event SET namespace = 'other'", "I12"),
        ("DELETE FROM ff_exec_core WHERE lifecycle_phase = 'terminal'", "I16"),
    ],
    ids=lambda value: value if len(value) < 5 else "",
)
async def test_verify_finds_damage(tmp_path: Path, damage: str, invariant: str) -> None:
    path = tmp_path / "ff.db"
    await filled(path)
    db = sqlite3.connect(path)
    db.execute(damage)
    db.commit()
    db.close()
    done = flowfabric("verify", "--db", str(path), "--json")
    assert done.returncode == 1
    assert invariant in {v["invariant"] for v in json.loads(done.stdout)["violations"]}


@pytest.mark.parametrize(
    "content", [None, b"", b"this is not a database, but it is long enough to look like one" * 50]
)
def test_verify_of_something_else(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "other.db"
    if content is not None:
        path.write_bytes(content)
    done = flowfabric("verify", "--db", str(path))
    refused(done, str(path), 4)
    assert path.exists() == (content is not None)


def test_verify_of_an_unknown_scheme() -> None:
    done = flowfabric("verify", "--db", "mysql://somewhere")
    refused(done, "not supported", 2)


def test_version_and_help() -> None:
    assert flowfabric("version").stdout.strip() == "0.1.0"
    assert "verify" in flowfabric("--help").stdout
