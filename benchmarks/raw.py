"""The raw limit: a bare `sqlite3` loop that writes the very rows the engine writes, in groups, with
no rule in between.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

from flowfabric.store.sql.ddl import sqlite_schema

Phase = Callable[[list[UUID], list[UUID]], None]
GROUP = 50
PAYLOAD = b"x" * 64

_CREATE = """INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, namespace,
 execution_kind, creator_identity, required_capabilities, budget_ids, priority, tags, payload,
 attempt_state, created_at_ms, last_transition_at, last_mutation_at, lifecycle_phase,
 ownership_state, eligibility_state, blocking_reason, blocking_detail, terminal_outcome,
 public_state) VALUES (86, ?, 'bench', 'default', 'bench', '', '[]', '[]', 0, '{}', ?,
 'pending_first_attempt', ?, ?, ?, 'runnable', 'unowned', 'eligible_now', 'waiting_for_worker', '',
 'none', 'waiting')"""
_CLAIM = """UPDATE ff_exec_core SET version = version + 1, last_mutation_at = ?,
 last_transition_at = ?, lifecycle_phase = 'active', ownership_state = 'leased',
 eligibility_state = 'not_applicable', blocking_reason = 'none', public_state = 'active',
 attempt_state = 'running_attempt', lease_epoch = 1, current_lease_id = ?, current_attempt_id = ?,
 total_attempt_count = 1, current_worker_id = 'bench', current_worker_instance_id = 'bench-1',
 started_at_ms = ?, lease_acquired_at = ?, lease_last_renewed_at = ?, lease_expires_at_ms = ?,
 lease_renewal_deadline = ? WHERE partition_key = 86 AND execution_id = ?"""
_ATTEMPT = """INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, attempt_id,
 attempt_type, attempt_state, worker_id, worker_instance_id, lease_id, lease_epoch,
 lease_expires_at_ms, created_at_ms, started_at_ms) VALUES (86, ?, 0, ?, 'initial', 'started',
 'bench', 'bench-1', ?, 1, ?, ?, ?)"""
_LEASE_EVENT = """INSERT INTO ff_lease_event (event_type, occurred_at_ms, execution_id,
 partition_key, namespace, lease_id, lease_epoch, worker_instance_id, reason) VALUES (?, ?, ?, 86,
 'default', ?, 1, 'bench-1', ?)"""
_COMPLETE = """UPDATE ff_exec_core SET version = version + 1, last_mutation_at = ?,
 last_transition_at = ?, lifecycle_phase = 'terminal', ownership_state = 'unowned',
 terminal_outcome = 'success', public_state = 'completed', attempt_state = 'attempt_terminal',
 current_lease_id = NULL, current_worker_id = NULL, current_worker_instance_id = NULL,
 lease_expires_at_ms = NULL, lease_last_renewed_at = NULL, lease_renewal_deadline = NULL,
 closing_epoch = 1, closing_attempt_index = 0, terminal_at_ms = ?, result = ? WHERE
 partition_key = 86 AND execution_id = ?"""
_END_ATTEMPT = """UPDATE ff_attempt SET attempt_state = 'ended_success', outcome = 'success',
 terminal_at_ms = ?, lease_expires_at_ms = NULL WHERE partition_key = 86 AND execution_id = ? AND
 attempt_index = 0"""
_COMPLETION_EVENT = """INSERT INTO ff_completion_event (outcome, occurred_at_ms, execution_id,
 partition_key, namespace, committed_at_ms) VALUES ('success', ?, ?, 86, 'default', ?)"""


def open_raw(path: Path) -> sqlite3.Connection:
    """The same schema and the same settings as the engine's own connection."""
    db = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "temp_store = MEMORY",
        "mmap_size = 268435456",
        "cache_size = -8192",
        "wal_autocheckpoint = 4000",
    ):
        db.execute(f"PRAGMA {pragma}")
    db.executescript(sqlite_schema())
    return db


class RawLives:
    """Whole lives of executions: created, claimed, completed."""

    def __init__(self, path: Path) -> None:
        self._db = open_raw(path)
        self._now = time.time_ns() // 1_000_000

    async def close(self) -> None:
        self._db.close()

    async def lives(self, n: int, group: int = GROUP) -> float:
        """Seconds for n executions, each phase group-committed."""
        idents = [uuid4() for _ in range(n)]
        idents.sort()
        leases = [uuid4() for _ in range(n)]
        started = time.perf_counter()
        for phase in (self.create, self.claim, self.complete):
            for at in range(0, n, group):
                self._commit(phase, idents[at : at + group], leases[at : at + group])
        return time.perf_counter() - started

    async def one_by_one(self, n: int) -> list[float]:
        """Seconds for each of n lives, three transactions a life."""
        samples = []
        for _ in range(n):
            ident, lease = [uuid4()], [uuid4()]
            started = time.perf_counter()
            for phase in (self.create, self.claim, self.complete):
                self._commit(phase, ident, lease)
            samples.append(time.perf_counter() - started)
        return samples

    def _commit(self, phase: Phase, idents: list[UUID], leases: list[UUID]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        phase(idents, leases)
        self._db.execute("COMMIT")

    def create(self, idents: list[UUID], leases: list[UUID]) -> None:
        now = self._now
        self._db.executemany(_CREATE, [(i.bytes, PAYLOAD, now, now, now) for i in idents])

    def claim(self, idents: list[UUID], leases: list[UUID]) -> None:
        now, until = self._now, self._now + 30_000
        pairs = list(zip(idents, leases, strict=True))
        self._db.executemany(
            _CLAIM,
            [
                (now, now, x.bytes, x.bytes, now, now, now, until, now + 20_000, i.bytes)
                for i, x in pairs
            ],
        )
        self._db.executemany(
            _ATTEMPT, [(i.bytes, x.bytes, x.bytes, until, now, now) for i, x in pairs]
        )
        self._db.executemany(
            _LEASE_EVENT, [("acquired", now, str(i), str(x), None) for i, x in pairs]
        )

    def complete(self, idents: list[UUID], leases: list[UUID]) -> None:
        now = self._now
        pairs = list(zip(idents, leases, strict=True))
        self._db.executemany(_COMPLETE, [(now, now, now, b"ok", i.bytes) for i in idents])
        self._db.executemany(_END_ATTEMPT, [(now, i.bytes) for i in idents])
        self._db.executemany(
            _LEASE_EVENT, [("revoked", now, str(i), str(x), "completed") for i, x in pairs]
        )
        self._db.executemany(_COMPLETION_EVENT, [(now, i.bytes, now) for i in idents])
