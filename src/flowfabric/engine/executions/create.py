"""Creates of executions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from uuid import UUID

from flowfabric.engine import validation
from flowfabric.engine.claims.limit_cache import LimitCache
from flowfabric.engine.core import Core
from flowfabric.engine.executions.bulk_create import BulkCreate, checked_runs
from flowfabric.engine.executions.duplicates import Duplicates
from flowfabric.engine.executions.lanes import Lanes
from flowfabric.errors import TransportError, ValidationError, ValidationKind, invalid
from flowfabric.model.execution import MAX_BULK_CREATE, Created, CreateExecutionArgs, Duplicate
from flowfabric.model.policy import ExecutionPolicy, parse_policy
from flowfabric.model.quota import Attached
from flowfabric.plan import Applied
from flowfabric.rules.executions import create
from flowfabric.rules.executions.create import Creation
from flowfabric.rules.limits.limit_scopes import NOTHING, attached, limits_named, unknown

_POLICY_ERRORS = (ValidationKind.INVALID_POLICY_JSON, ValidationKind.INVALID_CAPABILITIES)


class CreateExecutions:
    """Creates executions, one or many at once."""

    def __init__(self, core: Core, lanes: Lanes, limit_cache: LimitCache) -> None:
        self._core, self._store = core, core.store
        self._lanes, self._limit_cache = lanes, limit_cache
        self._duplicates = Duplicates(core, lanes)
        self._bulk = BulkCreate(core.store, self._duplicates, self.create_execution)

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
            if creation.key is None:
                answer = await self._store.commit(creation.plan)
            else:
                answer = await self._store.commit_together((creation.key, creation.plan))
        except TransportError as error:
            if not error.doubtful:
                raise
            return await self._duplicates.resolve_lost(creation, args, error)
        if isinstance(answer, Applied):
            return creation.result
        return await self._duplicates.resolve(creation, args)

    async def create_executions(
        self, many: Sequence[CreateExecutionArgs], *, connection: object = None
    ) -> list[Created | Duplicate]:
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
        await self._bulk.check_lanes(lanes, creations, many)
        await self._register(lanes)
        try:
            return await self._bulk.create(creations, many)
        except TransportError as error:
            if error.doubtful or len(creations) == 1:
                raise
            text = f"{error}; some or all of the executions may have been created"
            raise TransportError(
                error.backend, text, backend_kind=error.backend_kind, doubtful=True
            ) from error

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
