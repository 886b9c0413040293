"""Progress after the faults: due timers are processed in time, and every worker claims from every
lane.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from flowfabric import CreateExecutionArgs, Engine, ExecutionId
from flowfabric.model.policy import ExecutionPolicy, RoutingRequirements
from flowfabric.sdk.task import capability_of
from flowfabric.verify.invariants import Violation
from tests.patience import Allowance

from .driver import made
from .evidence import GRANTS, Evidence
from .logs import Log
from .plan import FIRST_OF_PROBES, LANES, probe_of
from .task_plan import NAMESPACES, PROBE, TASK_LANES

OVERDUE_MS, STAYS_MS = 20_000, 5_000
PROBE_S = 20.0
LOOK_EVERY_S = 1.0
TIMERS = (
    "leased",
    "lost",
    "delayed",
    "attempt_timeout",
    "deadline",
    "suspension_timeout",
    "waitpoint_expiry",
)
WORKERS = ("worker0", "worker1", "worker2")
TASK_WORKERS = ("taskworker0", "taskworker1")


class Timers:
    """Reads the first timer of each kind at intervals, and logs an overdue one while no fault is
    active. A replay may have a deadline in the past, so a timer counts when it is overdue in
    consecutive reads.
    """

    def __init__(self, log: Log) -> None:
        self._log, self._since_ms, self._look_at = log, 0, 0.0
        self._late: dict[str, tuple[int, int]] = {}
        self.worst_ms = 0

    async def look(self, engine: Engine) -> None:
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_EVERY_S
        now = await engine.server_time_ms()
        self._since_ms = self._since_ms or now
        for index in TIMERS:
            due = await engine.store.next_due(index)
            self._note(index, now, 0 if due is None else now - max(due, self._since_ms))

    def _note(self, index: str, now: int, late_ms: int) -> None:
        since, before_ms = self._late.get(index, (now, 0))
        since = since if before_ms > OVERDUE_MS else now
        self._late[index] = (since, late_ms)
        self.worst_ms = max(self.worst_ms, min(before_ms, late_ms))
        if late_ms > OVERDUE_MS and now - since >= STAYS_MS:
            self._log.write("note", "overdue", index=index, late_ms=late_ms)


async def probe(engine: Engine, log: Log) -> None:
    """Submits one execution per worker and lane that no other worker can run, and waits for all of
    them.
    """
    idents = []
    for number, (role, namespace, lane) in enumerate(_targets()):
        args = _probe(number, role, namespace, lane)
        facts: dict[str, Any] = {"asked": [(args.execution_id, None)]}
        if args.execution_kind == PROBE:
            facts["runs"] = [(namespace, PROBE, args.input_payload.decode())]
        await log.call("create", engine.create_execution(args), made, **facts)
        log.write("note", "probe", execution=args.execution_id, role=role, lane=lane)
        idents.append(args.execution_id)
    allowed = Allowance(PROBE_S)
    while not allowed.is_spent:
        outcomes = [await engine.read_outcome(ident) for ident in idents]
        if all(outcome is not None and outcome.ended for outcome in outcomes):
            return
        await asyncio.sleep(LOOK_EVERY_S / 10)


def _targets() -> Iterator[tuple[str, str, str]]:
    yield from ((role, "default", lane) for role in WORKERS for lane in LANES)
    yield from (
        (role, namespace, lane)
        for role in TASK_WORKERS
        for namespace in NAMESPACES
        for lane in TASK_LANES
    )


def _probe(number: int, role: str, namespace: str, lane: str) -> CreateExecutionArgs:
    is_task = role in TASK_WORKERS
    needs = (probe_of(role), *([capability_of(PROBE)] if is_task else []))
    payload = (
        msgspec.json.encode({"n": number}) if is_task else f"{FIRST_OF_PROBES + number}:".encode()
    )
    return CreateExecutionArgs(
        execution_id=ExecutionId.solo(lane),
        lane_id=lane,
        namespace=namespace,
        execution_kind=PROBE if is_task else "default",
        input_payload=payload,
        payload_encoding="json" if is_task else None,
        policy=ExecutionPolicy(
            routing_requirements=RoutingRequirements(required_capabilities=tuple(sorted(needs)))
        ),
    )


def no_timer_is_overdue(seen: Evidence) -> Iterator[Violation]:
    for note in seen.history.notes:
        if note["op"] == "overdue":
            yield Violation(
                "I21",
                note["index"],
                f"its first timer is overdue by {note['late_ms']} ms in a healthy fleet",
            )


def every_worker_claims(seen: Evidence) -> Iterator[Violation]:
    """Its probe of each lane was granted to it, and succeeded."""
    for note in seen.history.notes:
        if note["op"] != "probe":
            continue
        execution = seen.execution(note["execution"])
        by = [
            e["worker_instance_id"] or ""
            for e in seen.leases(note["execution"])
            if e["event_type"] in GRANTS
        ]
        if execution is None or execution.terminal_outcome != "success":
            state = "gone" if execution is None else execution.public_state
            yield Violation(
                "claims",
                note["role"],
                f"its probe of lane {note['lane']} is {state} after {PROBE_S:.0f} s",
            )
        elif not all(worker.startswith(f"{note['role']}-") for worker in by):
            yield Violation(
                "claims",
                note["role"],
                f"its probe of lane {note['lane']} was granted to {', '.join(by)}",
            )


PROGRESS_CHECKS = (no_timer_is_overdue, every_worker_claims)
