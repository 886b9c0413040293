"""Creating, cancelling, moving and replaying executions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count, groupby, repeat
from typing import Any
from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.executions.bulk_create import checked_runs
from flowfabric.errors import (
    EngineError,
    StateError,
    StateKind,
    TransportError,
    ValidationError,
    ValidationKind,
    invalid,
)
from flowfabric.ids import (
    ExecutionId,
    execution_id,
    lane_id,
    name,
    new_attempt_id,
    partition_key,
    tag_key,
    tag_key_is_valid,
)
from flowfabric.model.attempt import RetryScheduled
from flowfabric.model.execution import (
    MAX_BULK_CREATE,
    AlreadyTerminal,
    Blocked,
    CancelExecutionArgs,
    Cancelled,
    Changed,
    ChangePriorityArgs,
    Created,
    CreateExecutionArgs,
    Duplicate,
    Expired,
    Lane,
    LuaRejected,
    Page,
    Replayed,
    ReplayExecutionArgs,
)
from flowfabric.model.policy import ExecutionPolicy, parse_policy
from flowfabric.model.quota import Attached
from flowfabric.model.state import ExpirePhase, LaneState
from flowfabric.plan import Applied
from flowfabric.rules.claims import grants
from flowfabric.rules.executions import create, operator_actions, replay, time_limits
from flowfabric.rules.executions.create import Creation
from flowfabric.rules.limits.limit_scopes import NOTHING, attached, limits_named, unknown
from flowfabric.store.port import Get, GetAll, Read, Scan

_POLICY_ERRORS = (ValidationKind.INVALID_POLICY_JSON, ValidationKind.INVALID_CAPABILITIES)


class CreateExecutions(Core):
    async def create_execution(
        self, args: CreateExecutionArgs, *, connection: Any = None
    ) -> Created | Duplicate:
        """Registers work. Afterwards it can be claimed, or waits for its time.

        On Postgres, `connection` is a connection of yours: the work then exists from your commit on, or never.
        """
        if connection is not None:
            await self._know_lane(validation.creation(args).lane_id, "create_execution")
            return await self._inside(connection).create_execution(args)
        try:
            creation = await self._creation(args)
        except ValidationError as error:
            known = await self._duplicate_of(args) if error.kind in _POLICY_ERRORS else None
            if known is None:
                raise
            return known
        plans = (creation.plan,) if creation.key is None else (creation.key, creation.plan)
        try:
            answer = await (
                self.store.commit(creation.plan)
                if len(plans) == 1
                else self.store.commit_together(plans)
            )
        except TransportError as error:
            if not error.doubtful:
                raise
            return await self._look_into(creation, args, error)
        return (
            creation.result
            if isinstance(answer, Applied)
            else await self._settle_creation(creation, args)
        )

    async def create_executions(
        self, many: Sequence[CreateExecutionArgs], *, connection: Any = None
    ) -> list[Created | Duplicate]:
        """Many at once, each as `create_execution` would answer it, in the order given. Nothing is written if one is invalid, or
        one of their lanes is closed. If a lane closes while they are being written, those of other lanes may exist already.
        """
        many = list(many)  # the caller's may change while we wait
        if len(many) > MAX_BULK_CREATE:
            raise invalid("executions", f"at most {MAX_BULK_CREATE} in one call", len(many))
        runs = checked_runs(many)
        lanes = {run.first.lane_id for run in runs}
        if connection is not None:
            for lane in lanes:
                await self._know_lane(lane, "create_execution")
            return await self._inside(connection).create_executions(many)
        now = await self.store.now_ms()
        limits = await self._limits_of([(run.first, run.policy) for run in runs])
        made: list[Creation] = []
        for run, limited in zip(runs, limits or repeat(NOTHING), strict=False):
            first = create.create(run.first, run.policy, now, limited)
            made += (first, *create.repeated(first, run.others))
        await self._check_lanes(lanes, made, many)
        for lane in lanes:
            await self._know_lane(lane, "create_execution")
        try:
            return await self._create_all(made, many)
        except TransportError as error:
            if error.doubtful or len(made) == 1:
                raise
            text = f"{error}; whether all or some of them were created is not known"
            raise TransportError(
                error.backend, text, backend_kind=error.backend_kind, doubtful=True
            ) from error

    async def _check_lanes(
        self, lanes: set[str], made: list[Creation], many: Sequence[CreateExecutionArgs]
    ) -> None:
        """Where all are for one lane, its commits decide. What exists already is a duplicate, whatever its lane has become."""
        if len(lanes) < 2:
            return
        rows = (
            await self.store.load((GetAll("ff_lane_registry", [(lane,) for lane in lanes]),))
        ).rows[0]
        closed = {lane.lane_id: lane for lane in (Lane(*row) for row in rows) if lane.is_closed}
        for creation, args in zip(made, many, strict=True):
            if args.lane_id in closed and (await self._holder(creation, args))[0] is None:
                raise _closed(closed[args.lane_id])

    async def _create_all(
        self, made: list[Creation], many: Sequence[CreateExecutionArgs]
    ) -> list[Created | Duplicate]:
        """Runs of those without a key go together, those with one each take theirs first."""
        if all(creation.key is None for creation in made):
            return await self._create_plain(made, many)
        results: list[Created | Duplicate] = []
        for plain, run in groupby(range(len(made)), key=lambda at: made[at].key is None):
            several = list(run)
            if plain:
                results += await self._create_plain(
                    [made[at] for at in several], [many[at] for at in several]
                )
                continue
            for apart in _apart([many[at] for at in several]):
                results += await asyncio.gather(*map(self.create_execution, apart))
        return results

    async def _create_plain(
        self, made: list[Creation], many: Sequence[CreateExecutionArgs]
    ) -> list[Created | Duplicate]:
        answers = await self.store.commit_many([creation.plan for creation in made])
        if all(isinstance(answer, Applied) for answer in answers):
            return [creation.result for creation in made]
        results: list[Created | Duplicate] = []
        for creation, args, answer in zip(made, many, answers, strict=True):
            if isinstance(answer, TransportError) and answer.doubtful:
                results.append(await self._look_into(creation, args, answer))
                continue
            if isinstance(answer, Exception):
                raise answer
            results.append(
                creation.result
                if isinstance(answer, Applied)
                else await self._settle_creation(creation, args)
            )
        return results

    async def _limits_of(
        self,
        creations: Sequence[tuple[CreateExecutionArgs, ExecutionPolicy | None]],
        flow_id: UUID | None = None,
    ) -> list[Attached]:
        """The limits of each, whose gates are known from here on; empty when nobody has any."""
        scopes = await self._attachments.scopes()
        if not scopes and all(policy is None for _, policy in creations):
            return []
        await self._check_limits(creations)
        limits = [attached(args, policy, scopes, flow_id) for args, policy in creations]
        for (args, _), limited in zip(creations, limits, strict=True):
            if limited is not NOTHING:
                await self._attachments.know_gate(args.lane_id, args.namespace, limited)
        return limits

    async def _check_limits(
        self, creations: Sequence[tuple[CreateExecutionArgs, ExecutionPolicy | None]]
    ) -> None:
        """What an execution names must be there, and of its own namespace."""
        named = [
            (args.namespace, limits)
            for args, policy in creations
            if (limits := limits_named(policy))
        ]
        if not named:
            return
        known = await self._attachments.namespaces(limit for _, limits in named for limit in limits)
        for namespace, limits in named:
            refused = unknown(limits, known, namespace)
            if refused is not None:
                raise refused

    async def _duplicate_of(self, args: CreateExecutionArgs) -> Duplicate | None:
        """What a create with an unacceptable policy would have met first."""
        checked = validation.creation(args)
        creation = create.create(checked, None, await self.store.now_ms())
        return (await self._holder(creation, checked))[0]

    async def _creation(self, args: CreateExecutionArgs) -> Creation:
        checked = validation.creation(args)
        policy = parse_policy(checked.policy)
        limits = await self._limits_of(((checked, policy),))
        creation = create.create(
            checked, policy, await self.store.now_ms(), limits[0] if limits else NOTHING
        )
        await self._know_lane(args.lane_id, "create_execution")
        return creation

    async def _settle_creation(
        self, creation: Creation, args: CreateExecutionArgs, *, doubtful: bool = False
    ) -> Created | Duplicate:
        """Why a create was refused: the key or the id is taken, or the lane is closed. An outdated key is taken over.

        A create whose answer was lost may land at any time, so whoever has the id is looked at: it may be this very call.
        """
        for tries in count(1):
            known, outdated = await self._holder(creation, args)
            if known is not None:
                return creation.result if doubtful and await self._landed(creation, args) else known
            lane = await self.read_lane(args.lane_id)
            if lane is not None and lane.is_closed:
                raise _closed(lane)
            take = creation.key
            if take is not None and outdated is not None:
                take = create.retake(take, outdated)
            plans = (creation.plan,) if take is None else (take, creation.plan)
            if isinstance(await self.store.commit_together(plans), Applied):
                return creation.result
            await self._pause(tries)
        raise AssertionError("the last pause raises")

    async def _look_into(
        self, creation: Creation, args: CreateExecutionArgs, lost: TransportError
    ) -> Created | Duplicate:
        """What became of a create whose answer was lost; where that cannot be found out, the doubt stays."""
        try:
            return await self._settle_creation(creation, args, doubtful=True)
        except EngineError as error:
            raise lost from error

    async def _landed(self, creation: Creation, args: CreateExecutionArgs) -> bool:
        """Whether a create whose answer was lost was carried out: the row is there, of that very moment and with that payload."""
        ident = creation.result.execution_id
        read = Get(
            "ff_exec_core", (ident.partition_index, ident.uuid), ("created_at_ms", "payload")
        )
        return (await self.store.load((read,))).rows[0] == [
            (creation.created_at_ms, args.input_payload)
        ]

    async def _holder(
        self, creation: Creation, args: CreateExecutionArgs
    ) -> tuple[Duplicate | None, ExecutionId | None]:
        """The execution that has the key or the id; and the one whose key may be taken over, because it is no longer kept."""
        ident = creation.result.execution_id
        reads: list[Read] = [
            Get("ff_exec_core", (ident.partition_index, ident.uuid), ("execution_id",))
        ]
        if args.idempotency_key:
            reads.append(Get("ff_idempotency", (args.namespace, args.idempotency_key)))
        loaded = await self.store.load(reads)
        if args.idempotency_key and loaded.rows[1]:
            _, _, partition, uuid, expires_at, digest = loaded.rows[1][0]
            holder = ExecutionId.of(partition, uuid)
            if create.is_in_time(expires_at, loaded.now_ms) or await self._has_key(holder, args):
                return Duplicate(holder, digest if args.key_digest else None), None
            return (Duplicate(ident) if loaded.rows[0] else None), holder
        return (Duplicate(ident) if loaded.rows[0] else None), None

    async def _has_key(self, ident: ExecutionId, args: CreateExecutionArgs) -> bool:
        read = Get(
            "ff_exec_core", (ident.partition_index, ident.uuid), ("namespace", "idempotency_key")
        )
        return (await self.store.load((read,))).rows[0] == [(args.namespace, args.idempotency_key)]

    # ---- the operator's hand

    async def cancel_execution(self, args: CancelExecutionArgs) -> Cancelled:
        """Ends an execution whatever it is doing. Again is fine; one that ended otherwise is an error."""
        ident = execution_id(args.execution_id)
        validation.text(args.reason, "reason")
        validation.text(name(args.source, "source"), "source")
        validation.optional_timestamp(args.now, "now")
        result: Cancelled = await self.decide(
            ident, lambda snapshot: operator_actions.cancel(snapshot, args)
        )
        return result

    async def change_priority(self, args: ChangePriorityArgs) -> Changed:
        """Moves a waiting execution within its lane."""
        ident = execution_id(args.execution_id)
        validation.whole(args.new_priority, "new_priority", -(2**31), 2**31 - 1)
        validation.optional_timestamp(args.now, "now")
        result: Changed = await self.decide(
            ident,
            lambda snapshot: operator_actions.change_priority(
                snapshot, args.new_priority, args.now
            ),
        )
        return result

    async def replay_execution(self, args: ReplayExecutionArgs) -> Replayed:
        """Starts an ended execution again, as a new generation."""
        ident = execution_id(args.execution_id)
        validation.optional_timestamp(args.now, "now")
        validation.optional_text(args.reason, "reason")
        validation.optional_text(args.requested_by, "requested_by")
        fresh = new_attempt_id()
        result: Replayed = await self.decide(
            ident,
            lambda snapshot: replay.replay(
                snapshot,
                attempt_id=fresh,
                now_ms=args.now,
                reason=args.reason,
                requested_by=args.requested_by,
            ),
            groups=True,
        )
        return result

    async def expire_execution(
        self,
        execution: ExecutionId,
        phase: ExpirePhase | str,
        *,
        partition: int | str | None = None,
        now: int | None = None,
    ) -> Expired | RetryScheduled | AlreadyTerminal | None:
        """Ends an execution past its deadline, or an attempt past its timeout, which the policy may retry; None if not due."""
        ident = execution_id(execution)
        validation.partition_matches(partition, ident.partition_index)
        validation.optional_timestamp(now, "now")
        try:
            kind = ExpirePhase(phase)
        except ValueError:
            raise invalid("phase", "attempt_timeout or execution_deadline", phase) from None
        roll = self._random.random()
        result: Expired | RetryScheduled | AlreadyTerminal | None = await self.decide(
            ident,
            lambda snapshot: time_limits.expire(
                snapshot, kind, now, self.settings.default_retry_policy, roll
            ),
        )
        return result

    async def promote_delayed(
        self,
        execution: ExecutionId,
        *,
        partition: int | str | None = None,
        lane: str = "",
        now: int | None = None,
    ) -> str:
        """Makes a delayed execution claimable once its time has come; the answer says what was found."""
        ident = execution_id(execution)
        validation.partition_matches(partition, ident.partition_index)
        validation.optional_timestamp(now, "now")
        result: str = await self.decide(
            ident, lambda snapshot: operator_actions.promote(snapshot, now)
        )
        return result

    async def block_route(
        self,
        execution: ExecutionId,
        reason_code: str,
        reason_detail: str = "",
        *,
        partition: int | str | None = None,
        now: int | None = None,
    ) -> Blocked | LuaRejected:
        """Holds a waiting execution back, with a named reason."""
        ident = execution_id(execution)
        validation.partition_matches(partition, ident.partition_index)
        validation.text(reason_detail, "reason_detail")
        validation.optional_timestamp(now, "now")
        result: Blocked | LuaRejected = await self.decide(
            ident, lambda snapshot: grants.block(snapshot, str(reason_code), reason_detail, now)
        )
        return result

    async def unblock_execution(
        self,
        execution: ExecutionId,
        expected_blocking_reason: str = "",
        *,
        partition: int | str | None = None,
        now: int | None = None,
    ) -> None:
        """Lets a held-back execution go, if it is still held for the reason given."""
        ident = execution_id(execution)
        validation.partition_matches(partition, ident.partition_index)
        validation.optional_timestamp(now, "now")
        await self.decide(
            ident,
            lambda snapshot: grants.unblock(snapshot, str(expected_blocking_reason), now),
            whole=True,
        )

    # ---- tags

    async def set_execution_tag(self, execution: ExecutionId, key: str, value: str) -> None:
        tag_key(key)
        await self._set_tags(execution, {key: value})

    async def set_execution_tags(self, execution: ExecutionId, tags: dict[str, str]) -> int:
        """All or none; how many were set."""
        for key in validation.tags(tags):
            if not tag_key_is_valid(key):
                raise ValidationError(
                    ValidationKind.INVALID_TAG_KEY,
                    f"{key!r:.80}: owner.name in lower case is accepted",
                )
        return await self._set_tags(execution, tags)

    async def _set_tags(self, execution: ExecutionId, tags: dict[str, str]) -> int:
        checked = validation.tags(tags)

        def rule(snapshot: Any) -> Any:
            return operator_actions.set_tags(snapshot, checked)

        result: int = await self.decide(execution_id(execution), rule)
        return result

    # ---- lanes

    async def _know_lane(self, lane: str, registered_by: str) -> None:
        if lane not in self._lanes:
            await self.store.commit(create.REGISTER_LANE(lane_id=lane, registered_by=registered_by))
            self._lanes.add(lane)

    async def set_lane_state(self, lane: str, state: LaneState | str) -> None:
        """active, paused (takes work, grants none), draining (takes none, finishes what is there) or disabled (neither)."""
        try:
            wanted = LaneState(state)
        except ValueError:
            raise invalid("state", "active, paused, draining or disabled", state) from None
        await self._know_lane(lane_id(lane), "operator")
        await self.store.commit(create.SET_LANE_STATE(lane_id=lane, state=wanted.value))

    async def pause_lane(self, lane: str) -> None:
        await self.set_lane_state(lane, LaneState.PAUSED)

    async def resume_lane(self, lane: str) -> None:
        await self.set_lane_state(lane, LaneState.ACTIVE)

    async def drain_lane(self, lane: str) -> None:
        await self.set_lane_state(lane, LaneState.DRAINING)

    async def read_lane(self, lane: str) -> Lane | None:
        loaded = await self.store.load((Get("ff_lane_registry", (lane_id(lane),)),))
        return Lane(*loaded.rows[0][0]) if loaded.rows[0] else None

    async def list_lanes(self, cursor: str | None = None, limit: int = 1_000) -> Page[str]:
        size = validation.limit(limit, 10_000)
        after = None if cursor is None else (lane_id(cursor, "cursor"),)
        loaded = await self.store.load((Scan("lanes", after=after, limit=size + 1 if size else 0),))
        lanes = [row[0] for row in loaded.rows[0]]
        return Page(lanes[:size], lanes[size - 1] if len(lanes) > size else None)

    async def list_executions(
        self, partition: int | str, cursor: str | None = None, limit: int = 1_000
    ) -> Page[ExecutionId]:
        """Ids of one partition in ascending order, strictly after the cursor."""
        index = partition_key(partition)
        size = validation.limit(limit, 1_000)
        after = None
        if cursor is not None:
            mark = execution_id(cursor, "cursor")
            if mark.partition_index != index:
                raise invalid("cursor", f"an id of partition {index}", cursor)
            after = (mark.uuid,)
        more = size + 1 if size else 0
        scan = Scan(
            "executions", {"partition_key": index}, after, limit=more, columns=("execution_id",)
        )
        loaded = await self.store.load((scan,))
        found = [ExecutionId.of(index, row[0]) for row in loaded.rows[0]]
        return Page(found[:size], found[size - 1] if len(found) > size else None)


def _apart(many: Sequence[CreateExecutionArgs]) -> list[list[CreateExecutionArgs]]:
    """In order, cut before whatever names an id or a key again: who comes first is to get it."""
    runs: list[list[CreateExecutionArgs]] = [[]]
    seen: set[object] = set()
    for args in many:
        names = {str(args.execution_id), (args.namespace, args.idempotency_key)}
        if names & seen:
            runs.append([])
            seen.clear()
        runs[-1].append(args)
        seen |= names
    return runs


def _closed(lane: Lane) -> StateError:
    return StateError(StateKind.LANE_CLOSED, f"lane {lane.lane_id!r} is {lane.state}")
