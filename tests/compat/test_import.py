"""A database that the original wrote, imported: compared row by row, verified, and worked on."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from flowfabric.codec.token import mint
from flowfabric.connect import ValkeyBackend, connect_store, read_tables
from flowfabric.connect.importing import ImportReport, import_original
from flowfabric.connect.transfer import CopyRefused
from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import ClaimPolicy
from flowfabric.model.search import ExecutionFilter
from flowfabric.model.signing_key import HmacKey
from flowfabric.model.waitpoint import DeliverSignalArgs
from flowfabric.store.schema import TABLES
from flowfabric.store.transfer import Step
from flowfabric.verify.invariants import CHECKS
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of
from tests.cli.commands import flowfabric
from tests.store.copying import fill, new_url

ORIGINAL = Path(__file__).parent / "vectors" / "original-sqlite.db"
SUSPENDED, WAITPOINT = UUID(int=0xA << 64 | 0x8 << 60), UUID(int=0xB << 64 | 0x8 << 60)
LEASED, DELAYED, BUSY = (UUID(int=n << 64 | 0x8 << 60) for n in (0xC, 0xD, 0xE))
WAITPOINT_KEY = f"wpk:{WAITPOINT}"
AT = 1_794_846_500_000
both = pytest.mark.parametrize("kind", ["sqlite", "postgres", "valkey"])
Rows = list[dict[str, Any]]
POLICY_DEFAULTS: dict[str, object] = {
    "priority": 0,
    "budget_ids": [],
    "max_reclaim_count": 100,
    "max_replay_count": 10,
    "max_signals_per_execution": 10_000,
}


def ignored(_: Step) -> None:
    """A report that is not looked at."""


def original(path: Path, sql: str) -> Rows:
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(sql)]


async def imported(kind: str, folder: Path, source: Path) -> tuple[str, ImportReport]:
    url = new_url(kind, "imported", folder)
    return url, await import_original(str(source), url, ignored)


async def stored(url: str, table: str) -> Rows:
    found = await asyncio.to_thread(read_tables, url, [table])
    return [dict(zip(TABLES[table].names, row, strict=True)) for row in found[table]]


async def violations(url: str) -> list[object]:
    snapshot = snapshot_of(await asyncio.to_thread(read_tables, url, TABLES_READ))
    return [each for check in CHECKS.values() for each in check(snapshot)]


def of(notes: ImportReport, key: object) -> str:
    return "; ".join(note.fact for note in notes.notes if note.key == str(key))


@both
async def test_every_execution_is_imported(kind: str, tmp_path: Path) -> None:
    url, report = await imported(kind, tmp_path, ORIGINAL)
    assert await violations(url) == []
    old = original(ORIGINAL, "SELECT * FROM ff_exec_core")
    new = {row["execution_id"]: row for row in await stored(url, "ff_exec_core")}
    assert len(old) == len(new) == 48
    for row in old:
        raw, made = json.loads(row["raw_fields"]), new[UUID(bytes=row["execution_id"])]
        ident = made["execution_id"]
        same = ("partition_key", "lane_id", "created_at_ms", "started_at_ms", "terminal_at_ms")
        for name in (*same, "payload", "result", "cancelled_by", "deadline_at_ms"):
            assert made[name] == row[name], name
        assert made["flow_id"] == (row["flow_id"] and UUID(bytes=row["flow_id"]))
        assert made["execution_kind"] == raw["execution_kind"]
        if made["namespace"] != raw["namespace"]:
            assert (raw["namespace"], made["namespace"]) == ("", "default")
            assert "without a namespace" in of(report, ident)
        assert made["creator_identity"] == raw["creator_identity"]
        assert json.loads(made["tags"]) == raw["tags"]
        assert made["payload_encoding"] == raw.get("payload_encoding")
        assert made["replay_count"] == raw.get("replay_count", 0)
        if made["priority"] != row["priority"]:
            assert f"priority {row['priority']} becomes" in of(report, ident)
        if made["idempotency_key"] != (raw.get("idempotency_key") or None):
            assert "its key belongs to" in of(report, ident)
        assert_state(row, made)
        assert_policy(row, made, report)


def assert_state(row: dict[str, Any], made: dict[str, Any]) -> None:
    phase, outcome = made["lifecycle_phase"], made["terminal_outcome"]
    if row["lifecycle_phase"] == "cancelled":
        assert (phase, outcome, made["public_state"]) == ("cancelled", "cancelled", "cancelled")
    elif row["lifecycle_phase"] == "terminal":
        assert (phase, outcome, made["public_state"]) == ("terminal", "success", "completed")
    else:
        assert (phase, outcome, made["public_state"]) == ("runnable", "none", "waiting")
        assert made["eligibility_state"] == row["eligibility_state"] == "eligible_now"


def assert_policy(row: dict[str, Any], made: dict[str, Any], report: ImportReport) -> None:
    if row["policy"] is None:
        assert made["policy"] is None
        return
    old, new = json.loads(row["policy"]), json.loads(made["policy"])
    different = {
        name
        for name, value in old.items()
        if full(new.get(name, POLICY_DEFAULTS.get(name))) != full(value)
    }
    told = of(report, made["execution_id"])
    for name in different:
        assert "policy" in told, name
        assert json.loads(made["raw_fields"])["policy"] == row["policy"]
    assert made["budget_ids"] == tuple(old["budget_ids"])


def full(value: Any) -> Any:
    """Without parts that are empty: the engine does not store them."""
    if not isinstance(value, dict):
        return value
    return {name: full(part) for name, part in value.items() if part not in ([], {}, None)}


async def test_every_namespace_has_its_cell(tmp_path: Path) -> None:
    """A name that no operation accepts has none."""
    url, _ = await imported("valkey", tmp_path, ORIGINAL)
    old = original(ORIGINAL, "SELECT * FROM ff_exec_core")
    named = {
        UUID(bytes=row["execution_id"]): json.loads(row["raw_fields"])["namespace"] for row in old
    }
    assert {len(space) for space in named.values()} == {0, 2, 300}
    engine = await ValkeyBackend.connect(url)
    try:
        assert await engine.cells.names() == ["default", "ns"]
        for space in ("default", "ns"):
            tables = await engine.cells.cell(space).store.dump(TABLES)
            mine = {uuid for uuid, of in named.items() if (of == "ns") == (space == "ns")}
            for name in ("ff_exec_core", "ff_attempt", "ff_lease_event"):
                at = TABLES[name].names.index("execution_id")
                assert {row[at] for row in tables[name]} <= mine
            assert len(tables["ff_exec_core"]) == len(mine)
            assert len(tables["ff_waitpoint_hmac"]) == 2
        for row in old:
            ident = ExecutionId.of(row["partition_key"], UUID(bytes=row["execution_id"]))
            assert await engine.read_execution_state(ident) is not None
        found = await engine.find_executions(ExecutionFilter(namespace="ns"), 100)
        assert {each.execution_uuid for each in found.items} == {
            uuid for uuid, space in named.items() if space == "ns"
        }
    finally:
        await engine.close()


@both
async def test_every_flow_budget_quota_and_waitpoint_is_imported(kind: str, tmp_path: Path) -> None:
    url, report = await imported(kind, tmp_path, ORIGINAL)
    flows = {row["flow_id"]: row for row in await stored(url, "ff_flow_core")}
    for row in original(ORIGINAL, "SELECT * FROM ff_flow_core"):
        made = flows.pop(UUID(bytes=row["flow_id"]))
        for name in ("graph_revision", "public_flow_state", "created_at_ms", "terminal_at_ms"):
            assert made[name] == row[name]
        assert json.loads(made["raw_fields"]) == json.loads(row["raw_fields"])
    assert flows == {}
    edges = {row["edge_id"]: row for row in await stored(url, "ff_edge")}
    for row in original(ORIGINAL, "SELECT * FROM ff_edge"):
        made = edges.pop(UUID(bytes=row["edge_id"]))
        assert made["upstream_eid"] == UUID(bytes=row["upstream_eid"])
        assert made["downstream_eid"] == UUID(bytes=row["downstream_eid"])
        assert json.loads(made["policy"]) == json.loads(row["policy"])
    assert edges == {}
    await assert_budgets(url, report)
    quotas = {str(row["quota_policy_id"]): row for row in await stored(url, "ff_quota_policy")}
    for row in original(ORIGINAL, "SELECT * FROM ff_quota_policy"):
        made = quotas.pop(row["quota_policy_id"])
        for name in ("max_requests_per_window", "active_concurrency_cap"):
            assert made[name] == max(row[name], 0)
    assert quotas == {}
    (suspension,) = original(ORIGINAL, "SELECT * FROM ff_suspension_current")
    waitpoints = await stored(url, "ff_waitpoint_pending")
    members = json.loads(suspension["member_map"])
    assert {row["waitpoint_key"] for row in waitpoints} == set(members)
    signals = {str(row["signal_id"]): row for row in await stored(url, "ff_signal")}
    for blob in (blob for blobs in members.values() for blob in blobs):
        made = signals.pop(blob["signal_id"])
        assert (made["signal_name"], made["source_identity"]) == (
            blob["signal_name"],
            blob["source_identity"],
        )
        assert made["payload"] == bytes.fromhex(blob["payload_hex"])
    assert signals == {}


async def assert_budgets(url: str, report: ImportReport) -> None:
    budgets = {str(row["budget_id"]): row for row in await stored(url, "ff_budget_policy")}
    for row in original(ORIGINAL, "SELECT * FROM ff_budget_policy"):
        made = budgets.pop(row["budget_id"])
        if "becomes" not in of(report, row["budget_id"]):
            assert json.loads(made["policy_json"]) == json.loads(row["policy_json"])
        for name in ("scope_type", "scope_id", "enforcement_mode", "next_reset_at_ms"):
            assert made[name] == row[name]
        assert made["breach_count"] == row["breach_count"]
    assert budgets == {}
    usage = {
        (str(row["budget_id"]), row["dimensions_key"]): row["current_value"]
        for row in await stored(url, "ff_budget_usage")
    }
    rows = original(ORIGINAL, "SELECT * FROM ff_budget_usage")
    assert usage == {
        (row["budget_id"], row["dimensions_key"]): row["current_value"] for row in rows
    }


@both
async def test_rows_and_events_keep_their_numbers(kind: str, tmp_path: Path) -> None:
    """Every row of the original is imported or has a note."""
    url, report = await imported(kind, tmp_path, ORIGINAL)
    for table in ("lease", "completion", "operator", "signal"):
        name = f"ff_{table}_event"
        old = [row["event_id"] for row in original(ORIGINAL, f"SELECT event_id FROM {name}")]
        new = sorted(row["event_id"] for row in await stored(url, name))
        assert new[: len(old)] == old
        extra = [note for note in report.notes if note.table == name and note.kind == "added"]
        assert len(new) == len(old) + len(extra)
    left_out = [(note.table, note.key) for note in report.notes if note.kind == "left out"]
    assert left_out == [("ff_budget_usage_dedup", "d1")]
    keys = {row["kid"]: row for row in await stored(url, "ff_waitpoint_hmac")}
    for row in original(ORIGINAL, "SELECT * FROM ff_waitpoint_hmac"):
        assert keys[row["kid"]]["secret"] == row["secret"]
        assert keys[row["kid"]]["active"] == row["active"]


# ---- work in progress


@pytest.fixture
def in_progress(tmp_path: Path) -> Path:
    """The database with a suspended, a leased, a delayed and a blocked execution, and damage."""
    path = tmp_path / "original.db"
    shutil.copy(ORIGINAL, path)
    with closing(sqlite3.connect(path)) as db, db:
        for ident, phase, owner, eligible, attempt in (
            (SUSPENDED, "suspended", "released", "not_applicable", "attempt_interrupted"),
            (LEASED, "active", "leased", "not_applicable", "running_attempt"),
            (DELAYED, "runnable", "unowned", "not_eligible_until_time", "pending_retry_attempt"),
            (BUSY, "runnable", "unowned", "blocked_by_quota", "pending_first_attempt"),
        ):
            raw = json.dumps({"namespace": "ns", "last_mutation_at": str(AT), "own": 1})
            values = (3, ident.bytes, phase, owner, eligible, phase, attempt, AT, AT, AT + 5, raw)
            db.execute(
                "INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, lifecycle_phase, "
                "ownership_state, eligibility_state, public_state, attempt_state, created_at_ms, "
                "started_at_ms, deadline_at_ms, raw_fields) "
                "VALUES (?, ?, 'work', ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            if ident != BUSY:
                db.execute(
                    "INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, "
                    "lease_epoch, started_at_ms, outcome) VALUES (3, ?, 0, 1, ?, ?)",
                    (ident.bytes, AT, "retry" if ident == DELAYED else None),
                )
                db.execute(
                    "INSERT INTO ff_lease_event (execution_id, event_type, occurred_at_ms, "
                    "partition_key, namespace) VALUES (?, 'acquired', ?, 3, 'ns')",
                    (str(ident), AT),
                )
        condition = {"Single": {"waitpoint_key": WAITPOINT_KEY, "matcher": {"ByName": "go"}}}
        db.execute(
            "INSERT INTO ff_suspension_current (partition_key, execution_id, suspension_id, "
            "suspended_at_ms, reason_code, condition) VALUES (3, ?, ?, ?, 'waiting_for_signal', ?)",
            (SUSPENDED.bytes, UUID(int=7).bytes, AT, json.dumps(condition)),
        )
        db.execute(
            "INSERT INTO ff_waitpoint_pending (partition_key, waitpoint_id, execution_id, "
            "token_kid, token, created_at_ms, waitpoint_key, state, required_signal_names, "
            "activated_at_ms) VALUES (3, ?, ?, 'ka161ad', ?, ?, ?, 'active', '[\"go\"]', ?)",
            (WAITPOINT.bytes, SUSPENDED.bytes, token(), AT, WAITPOINT_KEY, AT),
        )
        db.execute(
            "INSERT INTO ff_attempt (partition_key, execution_id, attempt_index) VALUES (9, ?, 0)",
            (UUID(int=99).bytes,),
        )
        db.execute("CREATE TABLE ff_later (a INTEGER)")
    return path


def token() -> str:
    key = HmacKey("ka161ad", 0, 1, None, bytes.fromhex("ab" * 32))
    return mint(key, ExecutionId.of(3, SUSPENDED), WAITPOINT)


@both
async def test_work_in_progress_goes_on(kind: str, tmp_path: Path, in_progress: Path) -> None:
    url, report = await imported(kind, tmp_path, in_progress)
    assert await violations(url) == []
    assert "its lease is not continued" in of(report, LEASED)
    assert "blocked_by_quota" in of(report, BUSY)
    assert "its execution is not in the database" in of(report, UUID(int=99))
    assert of(report, "0 rows") == "a table that this release does not know"
    assert token() not in repr(report)
    new = {row["execution_id"]: row for row in await stored(url, "ff_exec_core")}
    assert (new[DELAYED]["delay_until_ms"], new[DELAYED]["deadline_at_ms"]) == (AT + 5, None)
    assert json.loads(new[BUSY]["raw_fields"]) == {"own": 1}
    (waitpoint,) = (w for w in await stored(url, "ff_waitpoint_pending") if w["state"] == "active")
    assert (waitpoint["waitpoint_id"], waitpoint["token_kid"]) == (WAITPOINT, "ka161ad")
    engine = await connect_store(url, dev=True, loops=False)
    try:
        policy = ClaimPolicy("w", "w-1", 60_000, namespace="ns")
        first = {work.execution_id.uuid for work in await engine.claim_many("work", (), policy, 9)}
        assert first == {LEASED, BUSY}
        await engine.deliver_signal(signal())
        await engine.promote_delayed(ExecutionId.of(3, DELAYED))
        works = await engine.claim_many("work", (), policy, 9)
        assert {work.execution_id.uuid for work in works} == {SUSPENDED, DELAYED}
        for work in works:
            await engine.complete(work.handle, b"done")
    finally:
        await engine.close()
    assert await violations(url) == []


def signal() -> DeliverSignalArgs:
    return DeliverSignalArgs(
        execution_id=ExecutionId.of(3, SUSPENDED),
        waitpoint_id=WAITPOINT,
        signal_id=UUID(int=5),
        waitpoint_token=token(),
        signal_name="go",
        signal_category="approval",
        source_type="user",
        source_identity="ann",
    )


# ---- the command


def test_the_command_lists_what_differs(tmp_path: Path) -> None:
    url = new_url("sqlite", "imported", tmp_path)
    done = flowfabric("import", str(ORIGINAL), url, COLUMNS="250")
    assert done.returncode == 6, done.stderr
    assert "left out" in done.stdout
    rows = sum(len(found) for found in read_tables(url, TABLES).values())
    assert done.stdout.splitlines()[-1].startswith(f"imported {rows} rows of ")
    again = flowfabric("import", str(ORIGINAL), url)
    assert (again.returncode, "has rows of its own" in again.stderr) == (1, True)
    assert flowfabric("verify", "--db", url).returncode == 0


@both
async def test_an_interrupted_import_continues(kind: str, tmp_path: Path) -> None:
    url = new_url(kind, "imported", tmp_path)

    def stop(step: Step) -> None:
        if step.table == "ff_flow_core":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await import_original(str(ORIGINAL), url, stop)
    other = tmp_path / "other.db"
    shutil.copy(ORIGINAL, other)
    with pytest.raises(CopyRefused, match="unfinished import of"):
        await import_original(str(other), url, ignored)
    report = await import_original(str(ORIGINAL), url, ignored)
    assert report.rows["ff_exec_core"] == len(await stored(url, "ff_exec_core")) == 48
    assert await violations(url) == []


async def test_other_files_are_refused(tmp_path: Path) -> None:
    own, new = new_url("sqlite", "own", tmp_path), new_url("sqlite", "new", tmp_path)
    await fill(own, 1)
    with pytest.raises(ConfigError, match="not a database of the Rust FlowFabric"):
        await import_original(own, new, ignored)
    with pytest.raises(CopyRefused, match="has rows of its own"):
        await import_original(str(ORIGINAL), own, ignored)
