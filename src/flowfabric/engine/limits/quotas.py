"""Quotas, admissions outside of claims, and the scopes that limits are attached to."""

from __future__ import annotations

from itertools import starmap
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.engine import validation
from flowfabric.engine.claims.limit_cache import LimitCache
from flowfabric.engine.claims.quota_cache import quota_reads, standing_of
from flowfabric.engine.core import Core
from flowfabric.engine.flows.snapshots import load_flow
from flowfabric.engine.limits.limit_page import limit_page
from flowfabric.engine.snapshots import behind, full_page, load_one, pages
from flowfabric.errors import NotFound, ResourceExhausted, invalid
from flowfabric.ids import ExecutionId, execution_id, lane_id, name
from flowfabric.model import quota as model
from flowfabric.model.execution import Blocked, LuaRejected, Page
from flowfabric.plan import Applied
from flowfabric.rules.claims import grants
from flowfabric.rules.decision import Decision
from flowfabric.rules.flows.flow_fields import namespace_of
from flowfabric.rules.limits import limit_scopes, quotas
from flowfabric.store.port import Get, Scan

MAX_SCOPES_PAGE = 1_000
MAX_SCOPE_ID_BYTES = 1_024


class _Scope(Struct, frozen=True):
    """A limit and the scope it is attached to."""

    kind: str
    limit_id: UUID
    scope_type: str
    scope_id: str


class Quotas:
    def __init__(self, core: Core, limit_cache: LimitCache) -> None:
        self._core, self._store, self._limit_cache = core, core.store, limit_cache

    async def create_quota_policy(
        self, args: model.CreateQuotaPolicyArgs
    ) -> model.QuotaPolicyCreated | model.QuotaPolicyAlreadySatisfied:
        """Limits how many executions run at once and start per window.

        A quota that exists is not changed.
        """
        validation.instance(args, model.CreateQuotaPolicyArgs)
        ident = check_limits(args)
        validation.optional_timestamp(args.now, "now")
        validation.optional_namespace(args.namespace)
        now = await self._store.now_ms() if args.now is None else args.now
        answer = await self._store.commit(
            quotas.create(structs.replace(args, quota_policy_id=ident), now)
        )
        if isinstance(answer, Applied):
            return model.QuotaPolicyCreated(ident)
        refused = quotas.owned_elsewhere(await self.quota(ident), args)
        if refused is not None:
            raise refused
        return model.QuotaPolicyAlreadySatisfied(ident)

    async def read_quota_policy_limits(self, quota_policy_id: UUID) -> model.QuotaLimits | None:
        quota = await self.quota(validation.limit_id(quota_policy_id, "quota_policy_id"))
        return None if quota is None else quotas.limits_of(quota)

    async def list_quotas(
        self, namespace: str | None = None, cursor: UUID | None = None, limit: int = 100
    ) -> Page[UUID]:
        """The ids of quotas in order, behind the cursor. `read_quota_policy_limits` reads one."""
        return await limit_page(self._store, "quotas", namespace, cursor, limit)

    async def close_quota(self, quota_policy_id: UUID, until_ms: int) -> None:
        """Admits nothing before `until_ms`, as an upstream asks with Retry-After."""
        ident = validation.limit_id(quota_policy_id, "quota_policy_id")
        await self._set_closed(ident, validation.timestamp(until_ms, "until_ms"))

    async def open_quota(self, quota_policy_id: UUID) -> None:
        """Reverts `close_quota`."""
        await self._set_closed(validation.limit_id(quota_policy_id, "quota_policy_id"), None)

    async def _set_closed(self, ident: UUID, until_ms: int | None) -> None:
        if not isinstance(await self._store.commit(quotas.set_closed(ident, until_ms)), Applied):
            raise quotas.unknown(ident)

    async def quota(self, ident: UUID) -> model.QuotaPolicy | None:
        return await load_one(self._store, Get("ff_quota_policy", (ident,)), model.QuotaPolicy)

    # ---- admission outside of claims

    async def check_admission(self, args: model.CheckAdmissionArgs) -> model.Admission:
        """Admits an execution if these limits allow it; it holds a slot until it is released."""
        validation.instance(args, model.CheckAdmissionArgs)
        ident = validation.limit_id(args.quota_policy_id, "quota_policy_id")
        own = execution_id(args.execution_id)
        for field in ("window_seconds", "rate_limit", "concurrency_cap"):
            validation.whole(getattr(args, field), field, 0, model.MAX_LIMIT_VALUE)
        jitter = args.jitter_ms
        validation.whole(0 if jitter is None else jitter, "jitter_ms", 0, model.MAX_LIMIT_VALUE)
        dimension = validation.text(args.dimension, "dimension", model.MAX_DIMENSION_BYTES)
        validation.optional_timestamp(args.now, "now")
        checked = structs.replace(
            args,
            quota_policy_id=ident,
            execution_id=own,
            dimension=dimension or model.DEFAULT_DIMENSION,
        )
        extra = self._core.random.randint(0, jitter or 0)

        def rule(found: tuple[int, model.LimitState]) -> Decision:
            now, standing = found
            return quotas.check_admission(checked, standing, now, checked.dimension, extra)

        async with self._core.locks.of(ident):
            result: model.Admission = await self._core.run(lambda: self._standing(checked), rule)
        match result:
            case model.RateExceeded():
                self._core.telemetry.listener.quota_hit("rate")
            case model.ConcurrencyExceeded():
                self._core.telemetry.listener.quota_hit("concurrency")
        return result

    async def _standing(self, args: model.CheckAdmissionArgs) -> tuple[int, model.LimitState]:
        now = await self._store.now_ms() if args.now is None else args.now
        window = quota_reads(quotas.policy_of(args), now, dimension=args.dimension)
        own = Get(
            "ff_quota_admitted", (args.quota_policy_id, str(args.execution_id)), ("execution_id",)
        )
        loaded = await self._store.load(
            (Get("ff_quota_policy", (args.quota_policy_id,)), own, *window)
        )
        policies, mine, *rows = loaded.rows
        found = standing_of(next(starmap(model.QuotaPolicy, policies), None), rows, now)
        is_admitted = {args.execution_id.uuid for _ in mine}
        return now, structs.replace(found, admitted=found.admitted | is_admitted)

    async def release_admission(
        self, quota_policy_id: UUID, execution: ExecutionId
    ) -> model.Released:
        """Gives back the slot that `check_admission` took. Without a slot it changes nothing."""
        ident = validation.limit_id(quota_policy_id, "quota_policy_id")
        await self._store.commit(quotas.release(ident, execution_id(execution)))
        return model.Released()

    async def block_execution_for_admission(
        self, args: model.BlockForAdmissionArgs
    ) -> Blocked | model.Rejected:
        """Blocks a waiting execution because of a limit."""
        validation.instance(args, model.BlockForAdmissionArgs)
        ident = validation.target(args.execution_id, args.partition, args.now)
        if args.lane_id != "":
            lane_id(args.lane_id)
        detail = validation.optional_text(args.reason_detail, "reason_detail") or ""
        validation.optional_text(args.blocked_on, "blocked_on", MAX_SCOPE_ID_BYTES)
        reason, now, on = str(args.reason), args.now, args.blocked_on
        found: Blocked | LuaRejected = await self._core.decide(
            ident, lambda snapshot: grants.block(snapshot, reason, detail, now, on)
        )
        return model.Rejected(found.message) if isinstance(found, LuaRejected) else found

    # ---- scopes

    async def attach_limit(
        self, kind: str, limit_id: UUID, scope_type: str, scope_id: str | UUID
    ) -> bool:
        """Puts executions created in a scope from now on under a limit. False if attached already.

        The scope must be in the namespace of the limit.
        """
        scope = _scope(kind, limit_id, scope_type, scope_id)
        namespace = await self._namespace_for(scope)
        if sum(map(len, (await self._limit_cache.scopes()).values())) >= model.MAX_LIMIT_SCOPES:
            raise ResourceExhausted("attached limits", model.MAX_LIMIT_SCOPES)
        plan = limit_scopes.ATTACH(**structs.asdict(scope), namespace=namespace)
        answer = await self._store.commit(plan)
        self._limit_cache.forget()
        return isinstance(answer, Applied)

    async def _namespace_for(self, scope: _Scope) -> str:
        """The namespace of the limit, if the scope may belong to it."""
        limit = (scope.kind, scope.limit_id)
        namespace = (await self._limit_cache.namespaces([limit])).get(limit)
        if namespace is None:
            raise NotFound(limit_scopes.UNKNOWN[scope.kind], scope.limit_id)
        owner = None
        if scope.scope_type == "flow":
            # A flow that does not exist yet is accepted; the namespace is checked when it is
            # created.
            flow = await load_flow(self._store, UUID(scope.scope_id))
            owner = None if flow is None else namespace_of(flow)
        elif scope.scope_type == "namespace":
            owner = scope.scope_id
        if owner not in (None, namespace):
            raise NotFound(scope.scope_type, scope.scope_id)
        return namespace

    async def read_limit_namespace(self, kind: str, limit_id: UUID) -> str | None:
        """The namespace of a budget or a quota, or None if there is no such limit."""
        limit = (_kind(kind), validation.limit_id(limit_id, "limit_id"))
        return (await self._limit_cache.namespaces([limit])).get(limit)

    async def detach_limit(
        self, kind: str, limit_id: UUID, scope_type: str, scope_id: str | UUID
    ) -> bool:
        """Takes executions created from now on out of a limit. False if it was not attached."""
        scope = _scope(kind, limit_id, scope_type, scope_id)
        answer = await self._store.commit(limit_scopes.DETACH(**structs.asdict(scope)))
        self._limit_cache.forget()
        return isinstance(answer, Applied)

    async def list_limit_scopes(
        self,
        after: model.LimitScope | None = None,
        limit: int = MAX_SCOPES_PAGE,
        namespace: str | None = None,
    ) -> Page[model.LimitScope]:
        """Attached limits in the order of their scopes. `after` is the last of the page before."""
        validation.optional_namespace(namespace)
        size = validation.limit(limit, MAX_SCOPES_PAGE)
        if after is not None and not isinstance(after, model.LimitScope):
            raise invalid("after", "the last LimitScope of the page before", after)
        scan = Scan("limit_scopes", limit=MAX_SCOPES_PAGE)
        found: list[model.LimitScope] = []
        async for page in pages(
            self._store, behind(scan, after) if after else scan, model.LimitScope
        ):
            found += [scope for scope in page if namespace in (None, scope.namespace)]
            if len(found) > size:
                break
        return Page(*full_page(found, size))


def check_limits(args: model.CreateQuotaPolicyArgs | model.UpdateQuotaPolicyArgs) -> UUID:
    """The id of the quota."""
    for field in ("window_seconds", "max_requests_per_window", "max_concurrent", "jitter_ms"):
        validation.whole(getattr(args, field), field, 0, model.MAX_LIMIT_VALUE)
    return validation.limit_id(args.quota_policy_id, "quota_policy_id")


def _kind(kind: object) -> str:
    if kind not in model.LIMIT_KINDS:
        raise invalid("kind", "budget or quota", kind)
    return str(kind)


def _scope(kind: object, limit: object, scope_type: object, scope: object) -> _Scope:
    checked_kind = _kind(kind)
    if scope_type not in model.SCOPE_TYPES:
        raise invalid("scope_type", ", ".join(model.SCOPE_TYPES), scope_type)
    ident = validation.limit_id(limit, "limit_id")
    match scope_type:
        case "flow":
            where = str(validation.flow_id(scope, "scope_id"))
        case "lane":
            where = lane_id(scope, "scope_id")
        case "task" | "namespace":
            where = name(scope, "scope_id")
        case _:
            where = validation.text(scope, "scope_id", MAX_SCOPE_ID_BYTES)
            key, separator, _ = where.partition("=")
            if not key or not separator:
                raise invalid("scope_id", "a tag as key=value", scope)
    return _Scope(checked_kind, ident, str(scope_type), where)
