"""What the engine tests share: making executions, forging handles, looking behind the engine's
back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec import structs

from flowfabric.codec.handle import decode_fields, encode_handle
from flowfabric.engine.engine import Engine
from flowfabric.errors import (
    Contention,
    ContentionKind,
    EngineError,
    StateError,
    StateKind,
    ValidationError,
)
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import Attempt, FailureClass
from flowfabric.model.execution import CreateExecutionArgs, Execution
from flowfabric.model.lease import (
    ClaimPolicy,
    ClaimResumedArgs,
    Handle,
    HandleFields,
    IssueGrantArgs,
    LeaseFence,
)
from flowfabric.model.worker import RegisterWorkerArgs
from flowfabric.rules.states import name_of, vector_of
from flowfabric.store.port import Get, Loaded, Read, Row
from flowfabric.store.schema import TABLES
from tests.patience import patient

LANE = "default"
TTL_MS = 30_000
GRACE_MS = 5_000
SOON_MS = 10_000
Kind = ContentionKind | StateKind


HolderCall = Callable[[Engine, Handle], Awaitable[Any]]
HOLDER_CALLS: dict[str, HolderCall] = {
    "renew": lambda e, h: e.renew(h),
    "progress": lambda e, h: e.progress(h, 50, "half"),
    "complete": lambda e, h: e.complete(h, b"x"),
    "fail": lambda e, h: e.fail(h, "boom"),
    "fail for good": lambda e, h: e.fail(h, "boom", FailureClass.PERMANENT),
    "delay": lambda e, h: e.delay(h, 1_900_000_000_000),
    "cancel": lambda e, h: e.cancel(h, "enough"),
}
holder_call = pytest.mark.parametrize("call", HOLDER_CALLS.values(), ids=HOLDER_CALLS.keys())
two_stores = pytest.mark.parametrize("engine", ["memory", "sqlite-memory"], indirect=True)
"""For the large tables: the reference and one SQL store."""


def new_id(partition: int = 0) -> ExecutionId:
    return ExecutionId.of(partition, uuid4())


def worker(
    number: int = 1,
    ttl_ms: int = TTL_MS,
    max_wait_ms: int | None = None,
    namespace: str | None = "default",
) -> ClaimPolicy:
    return ClaimPolicy(f"w{number}", f"w{number}-i1", ttl_ms, max_wait_ms, namespace)


async def create(engine: Engine, **said: Any) -> ExecutionId:
    """A new execution; says what was created and never a duplicate."""
    ident = said.pop("execution_id", None) or new_id()
    made = await engine.create_execution(CreateExecutionArgs(execution_id=ident, **said))
    assert made.__class__.__name__ == "Created"
    return ident


async def claim(
    engine: Engine,
    by: ClaimPolicy | None = None,
    *,
    lane: str = LANE,
    capabilities: tuple[str, ...] = (),
) -> Handle:
    handle = await engine.claim(lane, capabilities, by or worker())
    assert handle is not None
    return handle


async def running(
    engine: Engine, by: ClaimPolicy | None = None, **said: Any
) -> tuple[ExecutionId, Handle]:
    """A new execution leased to a worker. Alone on its lane unless the test put others there."""
    ident = await create(engine, **said)
    by = by or worker(namespace=said.get("namespace", "default"))
    handle = await claim(engine, by, lane=said.get("lane_id", LANE))
    assert fields(handle).execution_id == ident
    return ident, handle


async def completed(engine: Engine, **said: Any) -> tuple[ExecutionId, Handle]:
    ident, handle = await running(engine, **said)
    await engine.complete(handle, b"done")
    return ident, handle


async def lost(engine: Engine, clock: Any, **said: Any) -> tuple[ExecutionId, Handle]:
    """An execution whose lease ran out and was marked."""
    ident, handle = await running(engine, **said)
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(ident)
    return ident, handle


async def requeued(engine: Engine, clock: Any, **said: Any) -> tuple[ExecutionId, Handle]:
    ident, handle = await lost(engine, clock, **said)
    clock.advance(GRACE_MS)
    assert await engine.requeue_lost(ident) == "requeued"
    return ident, handle


# ---- handles and fences


def fields(handle: Handle) -> HandleFields:
    return decode_fields(handle.opaque)


def forged(handle: Handle, **changes: Any) -> Handle:
    """The same handle but for what is changed."""
    return Handle(
        handle.backend, handle.kind, encode_handle(structs.replace(fields(handle), **changes))
    )


def fence(handle: Handle, **changes: Any) -> LeaseFence:
    held = fields(handle)
    return structs.replace(LeaseFence(held.lease_id, held.lease_epoch, held.attempt_id), **changes)


def grant_args(
    ident: ExecutionId, number: int = 1, ttl_ms: int = SOON_MS, **said: Any
) -> IssueGrantArgs:
    return IssueGrantArgs(
        execution_id=ident,
        worker_id=f"w{number}",
        worker_instance_id=f"w{number}-i1",
        grant_ttl_ms=ttl_ms,
        **said,
    )


def registration(instance: str = "w1-i1", worker_id: str = "w1", **said: Any) -> RegisterWorkerArgs:
    return RegisterWorkerArgs(worker_id=worker_id, worker_instance_id=instance, **said)


# ---- behind the engine's back


async def row(engine: Engine, ident: ExecutionId) -> Execution:
    """The stored row, whose vector must be a legal one that shows what it derives."""
    found = await stored(engine, ident)
    assert found is not None
    vector = vector_of(found)
    assert name_of(vector) is not None, vector
    assert found.public_state == vector.public_state
    assert (found.terminal_at_ms is not None) == (vector.lifecycle_phase == "terminal")
    assert (found.lifecycle_phase == "cancelled") == (found.terminal_outcome == "cancelled")
    return found


async def stored(engine: Engine, ident: ExecutionId) -> Execution | None:
    loaded = await engine.store.load((Get("ff_exec_core", (ident.partition_index, ident.uuid)),))
    return Execution(*loaded.rows[0][0]) if loaded.rows[0] else None


async def state(engine: Engine, ident: ExecutionId) -> str:
    """The name of the state vector, with the outcome of an ended one: READY, RUNNING,
    ENDED(success).
    """
    found = await row(engine, ident)
    name = name_of(vector_of(found))
    return f"ENDED({found.terminal_outcome})" if name == "ENDED" else str(name)


async def attempts(engine: Engine, ident: ExecutionId) -> list[Attempt]:
    rows = (await engine.store.dump(["ff_attempt"]))["ff_attempt"]
    found = [Attempt(*r) for r in rows if r[1] == ident.uuid]
    return sorted(found, key=lambda a: a.attempt_index)


async def attempt(engine: Engine, ident: ExecutionId, index: int = -1) -> Attempt:
    return (await attempts(engine, ident))[index]


async def grant_count(engine: Engine) -> int:
    return len((await engine.store.dump(["ff_claim_grant"]))["ff_claim_grant"])


async def outbox(
    engine: Engine, channel: str, ident: ExecutionId | None = None
) -> list[dict[str, Any]]:
    names = TABLES[channel].names
    rows = [dict(zip(names, r, strict=True)) for r in (await engine.store.dump([channel]))[channel]]
    rows.sort(key=lambda r: r["event_id"])
    return [r for r in rows if ident is None or r["execution_id"] == ident.uuid]


async def told(engine: Engine, ident: ExecutionId) -> dict[str, list[str]]:
    """The events of an execution: words of the three channels, in order."""
    return {
        "LEASE": [r["event_type"] for r in await outbox(engine, "ff_lease_event", ident)],
        "DONE": [r["outcome"] for r in await outbox(engine, "ff_completion_event", ident)],
        "OPER": [r["event_type"] for r in await outbox(engine, "ff_operator_event", ident)],
    }


async def dump(engine: Engine) -> dict[str, list[Row]]:
    """Every table, in an order of its own."""
    found = await engine.store.dump(TABLES)
    return {table: sorted(rows, key=repr) for table, rows in found.items()}


async def parked(engine: Engine, topic: str, key: Any = None) -> None:
    """Until a waiter of this topic sleeps."""
    async with patient(10):
        while asleep_on(engine, topic, key) < 1:  # noqa: ASYNC110
            await asyncio.sleep(0)


def asleep_on(engine: Engine, topic: str, key: Any) -> int:
    """The number of sleeping waiters of a topic."""
    return sum(waiter.is_asleep for waiter in engine.store.hub.waiters.get((topic, key), ()))


def after_load(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    wanted: Callable[[Read], bool],
    then: Callable[[], Awaitable[object]],
) -> None:
    """Calls `then` after each load of such a read. Loads by `then` itself do not count."""
    load, is_inside = engine.store.load, False

    async def followed(reads: Sequence[Read]) -> Loaded:
        nonlocal is_inside
        found = await load(reads)
        if not is_inside and any(map(wanted, reads)):
            is_inside = True
            try:
                await then()
            finally:
                is_inside = False
        return found

    monkeypatch.setattr(engine.store, "load", followed)


def loop_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "flowfabric-loops"]


async def refused(call: Awaitable[Any], kind: Kind) -> EngineError:
    """The call is refused with this kind and nothing else."""
    with pytest.raises((Contention, StateError)) as caught:
        await call
    assert caught.value.kind is kind
    return caught.value


async def invalid(call: Awaitable[Any], text: str = "") -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        await call
    assert text in str(caught.value)
    return caught.value


def other_uuid() -> UUID:
    return uuid4()


def lease_label(engine: Engine) -> str:
    """The start of the composite name of a lease."""
    return "pg" if engine.backend_label == "postgres" else engine.backend_label


def resume_args(ident: ExecutionId, number: int = 1, **said: Any) -> ClaimResumedArgs:
    worker_id = f"w{number}"
    return ClaimResumedArgs(
        execution_id=ident,
        worker_id=worker_id,
        worker_instance_id=f"{worker_id}-i1",
        lease_ttl_ms=TTL_MS,
        **said,
    )
