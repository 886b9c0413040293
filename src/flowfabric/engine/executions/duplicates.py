"""Creates that are refused or whose answer is lost: the execution that has the id or the key."""

from __future__ import annotations

from itertools import count
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.core import Core
from flowfabric.engine.executions.lanes import Lanes
from flowfabric.engine.snapshots import load_rows
from flowfabric.errors import EngineError, StateError, StateKind, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Created, CreateExecutionArgs, Duplicate, Lane
from flowfabric.plan import Applied
from flowfabric.rules.executions import create
from flowfabric.rules.executions.create import Creation
from flowfabric.store.port import Get, Read


class KeyRow(Struct, frozen=True):
    """A row of `ff_idempotency`."""

    namespace: str
    idempotency_key: str
    partition_key: int
    execution_id: UUID
    expires_at_ms: int | None
    digest: str | None


class Existing(Struct, frozen=True):
    """The answer of a repeated create, or the holder of an expired key that can be taken over."""

    duplicate: Duplicate | None = None
    expired_holder: ExecutionId | None = None


class Duplicates:
    """Resolves creates that the store refused."""

    def __init__(self, core: Core, lanes: Lanes) -> None:
        self._core, self._store, self._lanes = core, core.store, lanes

    async def resolve(
        self, creation: Creation, args: CreateExecutionArgs, *, doubtful: bool = False
    ) -> Created | Duplicate:
        """Answers a refused create: the id or the key is taken, or the lane is closed.

        An expired key is taken over. A `doubtful` create, whose answer was lost, may be applied at
        any time, so the holder of the id may be this very create.
        """
        for tries in count(1):
            existing = await self.find(creation, args)
            if existing.duplicate is not None:
                is_own = doubtful and await self._was_applied(creation, args)
                return creation.result if is_own else existing.duplicate
            lane = await self._lanes.read_lane(args.lane_id)
            if lane is not None and lane.is_closed:
                raise lane_closed(lane)
            key = creation.key
            if key is not None and existing.expired_holder is not None:
                key = create.retake(key, existing.expired_holder)
            plans = (creation.plan,) if key is None else (key, creation.plan)
            if isinstance(await self._store.commit_together(plans), Applied):
                return creation.result
            await self._core.pause(tries)
        raise AssertionError("the last pause raises")

    async def resolve_lost(
        self, creation: Creation, args: CreateExecutionArgs, lost: TransportError
    ) -> Created | Duplicate:
        """Answers a create whose answer was lost; raises `lost` if that is not possible."""
        try:
            return await self.resolve(creation, args, doubtful=True)
        except EngineError as error:
            raise lost from error

    async def find(self, creation: Creation, args: CreateExecutionArgs) -> Existing:
        ident = creation.result.execution_id
        reads: list[Read] = [Get("ff_exec_core", ident.key, ("execution_id",))]
        if args.idempotency_key:
            reads.append(Get("ff_idempotency", (args.namespace, args.idempotency_key)))
        loaded = await self._store.load(reads)
        same_id, *keyed = loaded.rows
        taken = next((KeyRow(*row) for rows in keyed for row in rows), None)
        duplicate = Duplicate(ident) if same_id else None
        if taken is None:
            return Existing(duplicate)
        holder = ExecutionId.of(taken.partition_key, taken.execution_id)
        is_in_time = create.is_in_time(taken.expires_at_ms, loaded.now_ms)
        if is_in_time or await self._has_key(holder, args):
            return Existing(Duplicate(holder, taken.digest if args.key_digest else None))
        return Existing(duplicate, holder)

    async def _was_applied(self, creation: Creation, args: CreateExecutionArgs) -> bool:
        """The row has the moment and the payload of this create."""
        key, columns = creation.result.execution_id.key, ("created_at_ms", "payload")
        rows = await load_rows(self._store, Get("ff_exec_core", key, columns))
        return rows == [(creation.created_at_ms, args.input_payload)]

    async def _has_key(self, ident: ExecutionId, args: CreateExecutionArgs) -> bool:
        columns = ("namespace", "idempotency_key")
        rows = await load_rows(self._store, Get("ff_exec_core", ident.key, columns))
        return rows == [(args.namespace, args.idempotency_key)]


def lane_closed(lane: Lane) -> StateError:
    return StateError(StateKind.LANE_CLOSED, f"lane {lane.lane_id!r} is {lane.state}")
