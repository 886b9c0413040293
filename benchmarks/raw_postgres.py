"""The raw limit on Postgres: bare asyncpg that writes the very rows the engine writes, in batches,
with no rule in between.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

import asyncpg

from benchmarks.raw import PAYLOAD
from flowfabric.store.postgres.connections import WRITER_SETTINGS
from flowfabric.store.sql.ddl import postgres_schema

BATCH = 100
WARM_UP = 1_000
Phase = Callable[[list[UUID], list[UUID]], Awaitable[None]]

_CREATE = """INSERT INTO ff_exec_core (partition_key, execution_id, lane_id, namespace,
 execution_kind, creator_identity, required_capabilities, budget_ids, priority, tags, payload,
 attempt_state, created_at_ms, last_transition_at, last_mutation_at, lifecycle_phase,
 ownership_state, eligibility_state, blocking_reason, blocking_detail, terminal_outcome,
 public_state) SELECT 86, i, 'bench', 'default', 'bench', '', '{}', '{}', 0, '{}', p,
 'pending_first_attempt', $3, $3, $3, 'runnable', 'unowned', 'eligible_now', 'waiting_for_worker',
 '', 'none', 'waiting' FROM unnest($1::uuid[], $2::bytea[]) AS u(i, p)"""
_CLAIM = """UPDATE ff_exec_core AS t SET version = version + 1, last_mutation_at = $3::bigint,
 last_transition_at = $3::bigint, lifecycle_phase = 'active', ownership_state = 'leased',
 eligibility_state = 'not_applicable', blocking_reason = 'none', public_state = 'active',
 attempt_state = 'running_attempt', lease_epoch = 1, current_lease_id = x, current_attempt_id = x,
 total_attempt_count = 1, current_worker_id = 'bench', current_worker_instance_id = 'bench-1',
 started_at_ms = $3::bigint, lease_acquired_at = $3::bigint, lease_last_renewed_at = $3::bigint,
 lease_expires_at_ms = $3::bigint + 30000, lease_renewal_deadline = $3::bigint + 20000 FROM
 unnest($1::uuid[], $2::uuid[], $4::bigint[]) AS u(i, x, p) WHERE t.partition_key = p AND
 t.execution_id = i"""
_ATTEMPT = """INSERT INTO ff_attempt (partition_key, execution_id, attempt_index, attempt_id,
 attempt_type, attempt_state, worker_id, worker_instance_id, lease_id, lease_epoch,
 lease_expires_at_ms, created_at_ms, started_at_ms) SELECT 86, i, 0, x, 'initial', 'started',
 'bench', 'bench-1', x, 1, $3::bigint + 30000, $3, $3 FROM unnest($1::uuid[], $2::uuid[]) AS u(i,
 x)"""
_LEASE_EVENT = """INSERT INTO ff_lease_event (event_type, occurred_at_ms, execution_id,
 partition_key, namespace, lease_id, lease_epoch, worker_instance_id, reason) SELECT $4, $3,
 i, 86, 'default', x, 1, 'bench-1', $5 FROM unnest($1::uuid[], $2::uuid[]) AS u(i, x)"""
_COMPLETE = """UPDATE ff_exec_core AS t SET version = version + 1, last_mutation_at = $2,
 last_transition_at = $2, lifecycle_phase = 'terminal', ownership_state = 'unowned',
 terminal_outcome = 'success', public_state = 'completed', attempt_state = 'attempt_terminal',
 current_lease_id = NULL, current_worker_id = NULL, current_worker_instance_id = NULL,
 lease_expires_at_ms = NULL, lease_last_renewed_at = NULL, lease_renewal_deadline = NULL,
 closing_epoch = 1, closing_attempt_index = 0, terminal_at_ms = $2, result = 'ok' FROM
 unnest($1::uuid[], $3::bigint[]) AS u(i, p) WHERE t.partition_key = p AND t.execution_id = i"""
_END_ATTEMPT = """UPDATE ff_attempt AS t SET attempt_state = 'ended_success',
 outcome = 'success', terminal_at_ms = $2, lease_expires_at_ms = NULL FROM unnest($1::uuid[],
 $3::bigint[]) AS u(i, p) WHERE t.partition_key = p AND t.execution_id = i AND attempt_index = 0"""
_COMPLETION_EVENT = """INSERT INTO ff_completion_event (outcome, occurred_at_ms, execution_id,
 partition_key, namespace, committed_at_ms) SELECT 'success', $2, i, 86, 'default', $2 FROM
 unnest($1::uuid[]) AS u(i)"""


class RawPostgresLives:
    """Whole lives of executions: created, claimed, completed."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._db = connection
        self._now = time.time_ns() // 1_000_000

    @classmethod
    async def open(cls, url: str) -> RawPostgresLives:
        """With the planner settings that serve these statements best, which are the
        engine's own.
        """
        connection = await asyncpg.connect(url, server_settings=WRITER_SETTINGS)
        await connection.execute(postgres_schema())
        made = cls(connection)
        await made._all(WARM_UP, BATCH)
        return made

    async def close(self) -> None:
        await self._db.close()

    async def lives(self, n: int, batch: int = BATCH) -> float:
        """Seconds for n executions, each phase in batches. Plans made on smaller tables are made
        anew before.
        """
        await self._db.execute("ANALYZE")
        await self._db.execute("DISCARD PLANS")
        return await self._all(n, batch)

    async def _all(self, n: int, batch: int) -> float:
        idents, leases = sorted(uuid4() for _ in range(n)), [uuid4() for _ in range(n)]
        started = time.perf_counter()
        for phase in (self.create, self.claim, self.complete):
            for at in range(0, n, batch):
                async with self._db.transaction():
                    await phase(idents[at : at + batch], leases[at : at + batch])
        return time.perf_counter() - started

    async def one_by_one(self, n: int) -> list[float]:
        """Seconds for each of n lives, three transactions a life."""
        samples = []
        for _ in range(n):
            ident, lease = [uuid4()], [uuid4()]
            started = time.perf_counter()
            for phase in (self.create, self.claim, self.complete):
                async with self._db.transaction():
                    await phase(ident, lease)
            samples.append(time.perf_counter() - started)
        return samples

    async def create(self, idents: list[UUID], leases: list[UUID]) -> None:
        await self._db.execute(_CREATE, idents, [PAYLOAD] * len(idents), self._now)

    async def claim(self, idents: list[UUID], leases: list[UUID]) -> None:
        await self._db.execute(_CLAIM, idents, leases, self._now, [86] * len(idents))
        await self._db.execute(_ATTEMPT, idents, leases, self._now)
        await self._db.execute(_LEASE_EVENT, idents, leases, self._now, "acquired", None)

    async def complete(self, idents: list[UUID], leases: list[UUID]) -> None:
        await self._db.execute(_COMPLETE, idents, self._now, [86] * len(idents))
        await self._db.execute(_END_ATTEMPT, idents, self._now, [86] * len(idents))
        await self._db.execute(_LEASE_EVENT, idents, leases, self._now, "revoked", "completed")
        await self._db.execute(_COMPLETION_EVENT, idents, self._now)
