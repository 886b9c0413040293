"""Creates of executions, and the answers of creates that are refused or lost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count, repeat, starmap
from uuid import UUID

from msgspec import Struct

from flowfabric.engine import validation
from flowfabric.engine.claims.limit_cache import LimitCache
from flowfabric.engine.core import Core
from flowfabric.engine.executions.bulk_create import checked_runs, distinct_runs
from flowfabric.engine.executions.lanes import Lanes
from flowfabric.engine.snapshots import load_all, load_rows
from flowfabric.errors import (
    EngineError,
    StateError,
    StateKind,
    TransportError,
    ValidationError,
    ValidationKind,
    invalid,
)
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import (
    MAX_BULK_CREATE,
    Created,
    CreateExecutionArgs,
    Duplicate,
    Lane,
)
from flowfabric.model.policy import ExecutionPolicy, parse_policy
from flowfabric.model.quota import Attached
from flowfabric.plan import Applied, Refused
from flowfabric.rules.executions import create
from flowfabric.rules.executions.create import Creation
from flowfabric.rules.limits.limit_scopes import NOTHING, attached, limits_named, unknown
from flowfabric.store.port import Get, GetAll

Results = list[Created | Duplicate]
_POLICY_ERRORS = (ValidationKind.INVALID_POLICY_JSON, ValidationKind.INVALID_CAPABILITIES)


class KeyRow(Struct, frozen=True):
    """A row of `ff_idempotency`."""

    namespace: str
    idempotency_key: str
    partition_key: int
    execution_id: UUID
    expires_at_ms: int | None
    digest: str | None

    @property
    def name(self) -> tuple[str, str | None]:
        return self.namespace, self.idempotency_key

    @property
    def holder(self) -> ExecutionId:
        return ExecutionId.of(self.partition_key, self.execution_id)


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
            plan, holder = creation.plan, existing.expired_holder
            plans = (plan,) if holder is None else create.retake(plan, holder)
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
        (existing,) = await self.find_all([(creation, args)])
        return existing

    async def find_all(
        self, wanted: Sequence[tuple[Creation, CreateExecutionArgs]]
    ) -> list[Existing]:
        """What has the ids and the keys of these creates, in order."""
        names = [(args.namespace, args.idempotency_key) for _, args in wanted]
        idents = [creation.result.execution_id for creation, _ in wanted]
        reads = (
            GetAll("ff_exec_core", [ident.key for ident in idents], ("execution_id",)),
            GetAll("ff_idempotency", list(dict.fromkeys(name for name in names if name[1]))),
        )
        loaded = await self._store.load(reads)
        stored = {ident for (ident,) in loaded.rows[0]}
        taken = {row.name: row for row in starmap(KeyRow, loaded.rows[1])}
        expired = [
            row for row in taken.values() if not create.is_in_time(row.expires_at_ms, loaded.now_ms)
        ]
        free = set(expired) - await self._kept(expired)
        found = []
        for ident, name, (_, args) in zip(idents, names, wanted, strict=True):
            duplicate = Duplicate(ident) if ident.uuid in stored else None
            row = taken.get(name)
            if row is None:
                found.append(Existing(duplicate))
            elif row in free:
                found.append(Existing(duplicate, row.holder))
            else:
                digest = row.digest if args.key_digest else None
                found.append(Existing(Duplicate(row.holder, digest)))
        return found

    async def _kept(self, expired: Sequence[KeyRow]) -> set[KeyRow]:
        """The keys whose execution still has them."""
        if not expired:
            return set()
        columns = ("execution_id", "namespace", "idempotency_key")
        read = GetAll("ff_exec_core", [row.holder.key for row in expired], columns)
        holding = set(await load_rows(self._store, read))
        return {row for row in expired if (row.execution_id, *row.name) in holding}

    async def _was_applied(self, creation: Creation, args: CreateExecutionArgs) -> bool:
        """The row has the moment and the payload of this create."""
        key, columns = creation.result.execution_id.key, ("created_at_ms", "payload")
        rows = await load_rows(self._store, Get("ff_exec_core", key, columns))
        return rows == [(creation.created_at_ms, args.input_payload)]


def lane_closed(lane: Lane) -> StateError:
    return StateError(StateKind.LANE_CLOSED, f"lane {lane.lane_id!r} is {lane.state}")


class CreateExecutions:
    def __init__(self, core: Core, lanes: Lanes, limit_cache: LimitCache) -> None:
        self._core, self._store = core, core.store
        self._lanes, self._limit_cache = lanes, limit_cache
        self._duplicates = Duplicates(core, lanes)

    def _inside(self, connection: object) -> CreateExecutions:
        """The same part over the store inside a transaction of the caller."""
        core = self._core.over(self._store.inside(connection))
        return CreateExecutions(core, self._lanes, self._limit_cache)

    async def create_execution(
        self, args: CreateExecutionArgs, *, connection: object = None
    ) -> Created | Duplicate:
        """Creates an execution, which can be claimed at once or when its delay is over.

        With `connection`, a Postgres connection of the caller, it exists once that commits.
        """
        if connection is not None:
            await self._lanes.register(validation.creation(args).lane_id, "create_execution")
            return await self._inside(connection).create_execution(args)
        try:
            creation = await self._creation(args)
        except ValidationError as error:
            known = await self._duplicate_of(args) if error.kind in _POLICY_ERRORS else None
            if known is None:
                raise
            return known
        try:
            answer = await self._store.commit(creation.plan)
        except TransportError as error:
            if not error.doubtful:
                raise
            return await self._duplicates.resolve_lost(creation, args, error)
        if isinstance(answer, Applied):
            return creation.result
        return await self._duplicates.resolve(creation, args)

    async def create_executions(
        self, many: Sequence[CreateExecutionArgs], *, connection: object = None
    ) -> Results:
        """Creates many executions and answers for each, in order, as `create_execution` does.

        Creates nothing if one is invalid or one of their lanes is closed. If a lane closes
        meanwhile, executions of other lanes may have been created.
        """
        many = list(many)  # the caller may change its list during an await
        if len(many) > MAX_BULK_CREATE:
            raise invalid("executions", f"at most {MAX_BULK_CREATE} in one call", len(many))
        runs = checked_runs(many)
        lanes = {run.first.lane_id for run in runs}
        if connection is not None:
            await self._register(lanes)
            return await self._inside(connection).create_executions(many)
        now = await self._store.now_ms()
        limits = await self.limits_of([(run.first, run.policy) for run in runs])
        creations: list[Creation] = []
        for run, limited in zip(runs, limits or repeat(NOTHING), strict=False):
            first = create.create(run.first, run.policy, now, limited)
            creations += (first, *create.repeated(first, run.others))
        await self._check_lanes(lanes, creations, many)
        await self._register(lanes)
        try:
            return await self._create_all(creations, many)
        except TransportError as error:
            if error.doubtful or len(creations) == 1:
                raise
            text = f"{error}; some or all of the executions may have been created"
            raise TransportError(
                error.backend, text, backend_kind=error.backend_kind, doubtful=True
            ) from error

    async def _check_lanes(
        self,
        lanes: Collection[str],
        creations: Sequence[Creation],
        many: Sequence[CreateExecutionArgs],
    ) -> None:
        """Raises for a new execution of a closed lane. With one lane, the commits decide that."""
        if len(lanes) < 2:
            return
        read = GetAll("ff_lane_registry", [(lane,) for lane in lanes])
        found = await load_all(self._store, read, Lane)
        closed = {lane.lane_id: lane for lane in found if lane.is_closed}
        for creation, args in zip(creations, many, strict=True):
            if args.lane_id in closed:
                existing = await self._duplicates.find(creation, args)
                if existing.duplicate is None:
                    raise lane_closed(closed[args.lane_id])

    async def _create_all(
        self, creations: Sequence[Creation], many: Sequence[CreateExecutionArgs]
    ) -> Results:
        """Commits together what repeats no id and no key, so that the first create wins."""
        if not any(args.idempotency_key for args in many):
            return await self._create_distinct(creations, many)
        results: Results = []
        for start, end in distinct_runs(many):
            results += await self._create_distinct(creations[start:end], many[start:end])
        return results

    async def _create_distinct(
        self, creations: Sequence[Creation], many: Sequence[CreateExecutionArgs]
    ) -> Results:
        answers = await self._store.commit_many([creation.plan for creation in creations])
        if all(isinstance(answer, Applied) for answer in answers):
            return [creation.result for creation in creations]
        wanted = list(zip(creations, many, strict=True))
        refused = [at for at, answer in enumerate(answers) if isinstance(answer, Refused)]
        found = await self._duplicates.find_all([wanted[at] for at in refused])
        existing = dict(zip(refused, found, strict=True))
        results: Results = []
        for at, (creation, args) in enumerate(wanted):
            answer: object = answers[at]
            if isinstance(answer, Applied):
                results.append(creation.result)
            elif at in existing:
                duplicate = existing[at].duplicate
                results.append(duplicate or await self._duplicates.resolve(creation, args))
            elif isinstance(answer, TransportError) and answer.doubtful:
                results.append(await self._duplicates.resolve_lost(creation, args, answer))
            else:
                assert isinstance(answer, Exception)
                raise answer
        return results

    async def _register(self, lanes: set[str]) -> None:
        for lane in lanes:
            await self._lanes.register(lane, "create_execution")

    async def limits_of(
        self,
        creations: Sequence[tuple[CreateExecutionArgs, ExecutionPolicy | None]],
        flow_id: UUID | None = None,
    ) -> list[Attached]:
        """The limits of each create, whose gates are registered; empty if none has limits."""
        scopes = await self._limit_cache.scopes()
        if not scopes and all(policy is None for _, policy in creations):
            return []
        await self._check_limits(creations)
        limits = [attached(args, policy, scopes, flow_id) for args, policy in creations]
        for (args, _), limited in zip(creations, limits, strict=True):
            if limited is not NOTHING:
                await self._limit_cache.register_gate(args.lane_id, args.namespace, limited)
        return limits

    async def _check_limits(
        self, creations: Sequence[tuple[CreateExecutionArgs, ExecutionPolicy | None]]
    ) -> None:
        """Limits that a create names must exist in its namespace."""
        named = [
            (args.namespace, limits)
            for args, policy in creations
            if (limits := limits_named(policy))
        ]
        if not named:
            return
        known = await self._limit_cache.namespaces(limit for _, limits in named for limit in limits)
        for namespace, limits in named:
            refused = unknown(limits, known, namespace)
            if refused is not None:
                raise refused

    async def _duplicate_of(self, args: CreateExecutionArgs) -> Duplicate | None:
        """The existing execution; a repeated create is answered even if its policy is invalid."""
        checked = validation.creation(args)
        creation = create.create(checked, None, await self._store.now_ms())
        return (await self._duplicates.find(creation, checked)).duplicate

    async def _creation(self, args: CreateExecutionArgs) -> Creation:
        checked = validation.creation(args)
        policy = parse_policy(checked.policy)
        limits = await self.limits_of(((checked, policy),))
        now = await self._store.now_ms()
        creation = create.create(checked, policy, now, limits[0] if limits else NOTHING)
        await self._lanes.register(args.lane_id, "create_execution")
        return creation
