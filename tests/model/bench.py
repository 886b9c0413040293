"""The engine and the specification together: one event loop, one clock, and a comparison of every
answer and row.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import sys
import tempfile
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from flowfabric.codec.handle import decode_fields, encode_handle
from flowfabric.connect import sqlite_engine
from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.model.lease import (
    Claimed,
    Handle,
    HandleFields,
    IssuedAndClaimed,
    ReclaimGrant,
    Work,
)
from flowfabric.plan import Answer, Plan
from flowfabric.store.memory import MemoryStore
from flowfabric.store.port import Loaded, Read, Row
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.store import PostgresStore
from flowfabric.store.sqlite.registry import open_store
from flowfabric.store.valkey import options as valkey_options
from flowfabric.store.valkey.audit import audit
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing import ManualClock
from flowfabric.verify.flows import drained
from flowfabric.verify.invariants import check, ends_do_not_change, timers_are_kept
from flowfabric.verify.snapshot import Snapshot, snapshot_of
from tests import valkey
from tests.postgres import clean_database

from .fleet import Fleet
from .flow_picture import flow_differences
from .flow_spec import Flows
from .ops import Op
from .picture import DUMPED, differences
from .schedule_spec import Schedules, schedule_differences
from .shapes import Err, Held, Lease
from .suspend_picture import suspend_differences
from .suspend_spec import Suspends

LANES = ("one", "two")
SETTINGS = Settings(
    lease_reclaim_grace_ms=500, retention_completed_ms=2_000, retention_failed_ms=3_000
)
AGES = (SETTINGS.retention_completed_ms, SETTINGS.retention_failed_ms)
WRITES_ALTHOUGH_REFUSED = ("lease_expired", "capability_mismatch")
MIDDLES = (None, "claimed")
_names = itertools.count()


class RacingMemory(MemoryStore):
    """During a race every call first yields to the other side."""

    racing = False

    async def commit(self, plan: Plan) -> Answer:
        await self._yield()
        return await super().commit(plan)

    async def commit_together(self, plans: Sequence[Plan]) -> Answer:
        await self._yield()
        return await super().commit_together(plans)

    async def commit_many(self, plans: Sequence[Plan]) -> list[Answer]:
        await self._yield()
        return await super().commit_many(plans)

    async def load(self, reads: Sequence[Read]) -> Loaded:
        await self._yield()
        return await super().load(reads)

    async def sweep(self, plan: Plan, limit: int) -> list[Row]:
        await self._yield()
        return await super().sweep(plan, limit)

    async def _yield(self) -> None:
        if self.racing:
            await asyncio.sleep(0)


class Mismatch(AssertionError):
    """The engine and the specification disagree."""


class Bench:
    def __init__(self, kind: str, spec: type[Fleet] = Fleet) -> None:
        self.kind = kind
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self._options: Options | None = None
        self._cell: valkey_options.Options | None = None
        self._folder = tempfile.TemporaryDirectory() if kind == "sqlite-file" else None
        self._path = (
            str(Path(self._folder.name) / "ff.db")
            if self._folder
            else f"file:model-{next(_names)}?mode=memory"
        )
        self.engine = self._open()
        prefix = "pg" if kind == "postgres" else self.engine.store.label
        self.spec = spec(self.clock(), prefix, LANES, SETTINGS.lease_reclaim_grace_ms, AGES)
        for lane in LANES:
            self.run(self.engine.set_lane_state(lane, "active"))
        self.dumped = (*DUMPED, *spec.tables)
        self.tables = self.run(self.engine.store.dump(self.dumped))
        self.world = snapshot_of(self.tables)
        self.handles: list[Held] = []
        self.kept = 5
        self.story: list[str] = []

    def _open(self) -> Engine:
        if self.kind == "memory":
            return Engine(RacingMemory(self.clock), SETTINGS, seed=1)
        if self.kind == "postgres":
            return self.run(
                self._connect(clean_database() if self._options is None else self._options)
            )
        if self.kind == "valkey":
            self._cell = self._cell or valkey.new_store(self.clock).options
            return Engine(ValkeyStore(self._cell, clock=self.clock), SETTINGS, seed=1)
        tuning = {"synchronous": "NORMAL"} if self._folder else {}
        return sqlite_engine(open_store(self._path, clock=self.clock, **tuning), SETTINGS, seed=1)

    async def _connect(self, options: Options) -> Engine:
        """Connections belong to this bench's event loop."""
        self._options = options
        return Engine(
            await PostgresStore(options, clock=self.clock).open(check=False), SETTINGS, seed=1
        )

    def close(self) -> None:
        try:
            self.run(self.engine.close())
            if self._cell is not None:
                self.indexes()
                self.run(valkey.clear(self._cell))
            self.run(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()
            if self._folder:
                self._folder.cleanup()

    def reopen(self) -> None:
        """A process dies and another continues: only the store survives."""
        if self.kind in ("sqlite-file", "postgres", "valkey"):
            self.run(self.engine.close())
            self.engine = self._open()
        else:
            self.engine = type(self.engine)(self.engine.store, SETTINGS, seed=1)
        self.spec.looked.clear()
        self.spec.turn.clear()
        self.story.append("crash and reopen")
        self.compare()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def to(self, now_ms: int) -> None:
        self.clock.now_ms = self.spec.now = max(now_ms, self.clock.now_ms)
        self.story.append(f"clock +{self.clock.now_ms - 1_800_000_000_000}")

    # ---- one call

    def do(self, op: Op) -> Any:
        """Runs one operation on both sides; everything must agree afterwards."""
        expected = _predicted(self.spec, op)
        answer, tables = self.run(self._answer_and_dump(op))
        self.story.append(f"{op.name} -> {answer!r}")
        problem = self.disagreement(self.spec, expected, answer)
        if problem:
            self._fail(op.name, [problem])
        self.compare(op.name, answer, tables)
        return answer

    async def _answer_and_dump(self, op: Op) -> tuple[Any, dict[str, list[Row]]]:
        return await _answered(self.engine, op), await self._dump()

    async def _dump(self) -> dict[str, list[Row]]:
        """The mark of a dispatched end is committed after its caller has the answer, so this waits
        for it.
        """
        await self.engine.parts.core.cascade.finish()
        return await self.engine.store.dump(self.dumped)

    def race(self, first: Op, second: Op) -> None:
        """Both at once: the outcome must be that of one order or the other, or of one during the
        other if that takes several round trips. The mark of an expired lease may come too late.
        """
        answers = self.run(self._together(first, second))
        self.story.append(f"race {first.name}, {second.name} -> {answers!r}")
        said: list[str] = []
        sides = list(zip((first, second), answers, strict=True))
        for point, (outer, inner), marks in itertools.product(
            MIDDLES, (sides, sides[::-1]), (True, False)
        ):
            spec = copy.deepcopy(self.spec)
            spec.marks = marks
            problems = self._in_order(spec, outer, inner, point)
            if not problems:
                tables = self.run(self.engine.store.dump(self.dumped))
                problems = _differences(spec, snapshot_of(tables), tables)
            if not problems:
                self.spec, spec.marks = spec, True
                self.compare()
                return
            said += [
                f"as {outer[0].name} first, {inner[0].name} when it had {point or 'answered'}:",
                *problems,
            ]
        self._fail(f"{first.name} racing {second.name}", said)

    def _in_order(
        self, spec: Fleet, outer: tuple[Op, Any], inner: tuple[Op, Any], point: str | None
    ) -> list[str]:
        """The differences if the inner one ran at a point of the outer one, or else after it."""
        said: list[str] = []

        def go(op: Op, answer: Any) -> None:
            said.append(self.disagreement(spec, _predicted(spec, op), answer))

        spec.meanwhile = {point: lambda: go(*inner)}
        go(*outer)
        spec.others_at(point)
        return [problem for problem in said if problem]

    async def _together(self, first: Op, second: Op) -> list[Any]:
        store: Any = self.engine.store
        store.racing = True
        try:
            return list(
                await asyncio.gather(_answered(self.engine, first), _answered(self.engine, second))
            )
        finally:
            store.racing = False

    # ---- comparing

    def compare(
        self,
        name: str | None = None,
        answer: Any = None,
        tables: dict[str, list[Row]] | None = None,
    ) -> None:
        before, past = self.tables, self.world
        self.tables = self.run(self._dump()) if tables is None else tables
        problems: list[str] = []
        if self.tables != before:
            self.world = snapshot_of(self.tables)
            problems += [str(v) for v in check(self.world)]
            problems += [str(v) for v in ends_do_not_change(past, self.world)]
            if isinstance(answer, EngineError) and answer.code not in WRITES_ALTHOUGH_REFUSED:
                problems.append(f"I17: refused with {answer.code}, yet something was written")
        problems = _differences(self.spec, self.world, self.tables) + problems
        if problems:
            self._fail(name or "the stored rows", problems)

    def quiet(self) -> None:
        """Waits until the cascade is idle. Marks of dispatched ends are committed after their
        callers have the answer.
        """
        self.run(self.engine.parts.core.cascade.finish())
        self.compare()
        left = [str(v) for v in drained(self.world)]
        if left:
            self._fail("what should be over", left)

    def indexes(self) -> None:
        """What a cell keeps beside its rows follows from them."""
        assert self._cell is not None
        wrong = [f"{fault.subject}: {fault.says}" for fault in self.run(audit(self._cell))]
        if wrong and not isinstance(sys.exc_info()[1], Mismatch):
            self._fail("indexes", wrong)

    def timers(self) -> None:
        late = [str(v) for v in timers_are_kept(self.world, self.clock(), 0)]
        if late:
            self._fail("timers", late)

    def _fail(self, what: str, problems: list[str]) -> None:
        raise Mismatch("\n".join([f"{what}:", *problems, "after:", *self.story]))

    def disagreement(self, spec: Fleet, expected: Any, answer: Any) -> str:
        if type(expected) is type(answer) is tuple:
            if len(expected) != len(answer):
                return f"specified {len(expected)} answers, got {len(answer)}"
            return "; ".join(
                filter(
                    None,
                    (self.disagreement(spec, *pair) for pair in zip(expected, answer, strict=True)),
                )
            )
        if isinstance(expected, Err) or isinstance(answer, EngineError):
            wanted = expected.codes if isinstance(expected, Err) else (repr(expected),)
            got = answer.code if isinstance(answer, EngineError) else repr(answer)
            return "" if got in wanted else f"specified {' or '.join(wanted)}, answered {got}"
        if isinstance(answer, ReclaimGrant):
            answer = answer.expires_at_ms
        leases = _leases(answer)
        if leases is not None:
            wanted_leases = expected if isinstance(expected, list) else [expected]
            told = [_lease(fields, kind, expires) for fields, kind, expires in leases]
            if told != [_without(w, t) for w, t in zip(wanted_leases, told, strict=False)] or len(
                told
            ) != len(wanted_leases):
                return f"specified {expected!r}, answered {told!r}"
            for fields, kind, _ in leases:
                spec.bind(fields.execution_id, fields.lease_id)
                self._keep(fields, Handle(self.engine.store.tag.label, kind, encode_handle(fields)))
            return ""
        if expected == "done" and answer is None:
            return ""
        return "" if expected == answer else f"specified {expected!r}, answered {answer!r}"

    def _keep(self, fields: HandleFields, handle: Handle) -> None:
        held = Held(
            fields.execution_id,
            fields.attempt_index,
            fields.lease_epoch,
            fields.lease_id,
            fields.lease_ttl_ms,
            handle,
        )
        if held not in self.handles:
            self.handles = [*self.handles[-self.kept :], held]


def _differences(spec: Fleet, world: Snapshot, tables: dict[str, list[Row]]) -> list[str]:
    found = differences(spec, world, tables)
    if isinstance(spec, Flows):
        found += flow_differences(spec, world)
    if isinstance(spec, Suspends):
        found += suspend_differences(spec, world, tables)
    if isinstance(spec, Schedules):
        found += schedule_differences(spec, tables)
    return found


def _predicted(spec: Fleet, op: Op) -> Any:
    try:
        return op.expect(spec)
    except Err as refusal:
        return refusal


async def _answered(engine: Engine, op: Op) -> Any:
    try:
        return await op.call(engine)
    except EngineError as refusal:
        return refusal


def _leases(answer: Any) -> list[tuple[HandleFields, Any, int | None]] | None:
    """The leases granted by an answer, as (fields, handle kind, expiry if returned); None for other
    answers.
    """
    match answer:
        case Handle():
            return [(decode_fields(answer.opaque), answer.kind, None)]
        case Claimed():
            return [
                (decode_fields(answer.handle.opaque), answer.handle.kind, answer.lease_expires_at)
            ]
        case IssuedAndClaimed():
            return [(decode_fields(answer.handle.opaque), answer.handle.kind, None)]
        case [*found] if all(isinstance(w, Work) for w in found):
            return [
                (decode_fields(w.handle.opaque), w.handle.kind, w.lease_expires_at) for w in found
            ]
    return None


def _lease(fields: HandleFields, kind: str, expires: int | None) -> Lease:
    return Lease(
        fields.execution_id,
        fields.attempt_index,
        fields.lease_epoch,
        -1 if expires is None else expires,
        str(kind),
    )


def _without(wanted: Any, told: Lease) -> Any:
    """An answer without the expiry is compared without it; the row has it."""
    if isinstance(wanted, Lease) and told.expires == -1:
        return Lease(wanted.ident, wanted.index, wanted.epoch, -1, wanted.kind)
    return wanted
