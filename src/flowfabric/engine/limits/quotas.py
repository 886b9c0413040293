"""Quotas and what they are attached to."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msgspec import structs

from flowfabric.engine import validation
from flowfabric.engine.claims.quota_cache import quota_reads, standing_of
from flowfabric.engine.waits.signals import Signals
from flowfabric.errors import NotFound, ResourceExhausted, invalid
from flowfabric.ids import ExecutionId, execution_id, lane_id, name
from flowfabric.model.execution import Blocked, LuaRejected, Page
from flowfabric.model.quota import (
    DEFAULT_DIMENSION,
    LIMIT_KINDS,
    MAX_DIMENSION_BYTES,
    MAX_LIMIT_SCOPES,
    MAX_LIMIT_VALUE,
    SCOPE_TYPES,
    Admission,
    BlockForAdmissionArgs,
    CheckAdmissionArgs,
    CreateQuotaPolicyArgs,
    LimitScope,
    LimitState,
    QuotaLimits,
    QuotaPolicy,
    QuotaPolicyAlreadySatisfied,
    QuotaPolicyCreated,
    Rejected,
    Released,
)
from flowfabric.plan import Applied
from flowfabric.rules.claims import grants
from flowfabric.rules.limits import limit_scopes, quotas
from flowfabric.store.port import Get, Scan

MAX_SCOPES_PAGE = 1_000
MAX_SCOPE_ID_BYTES = 1_024


class Quotas(Signals):
    async def create_quota_policy(
        self, args: CreateQuotaPolicyArgs
    ) -> QuotaPolicyCreated | QuotaPolicyAlreadySatisfied:
        """How many may run at once and how many may start per window. What exists is left as it is."""
        if not isinstance(args, CreateQuotaPolicyArgs):
            raise invalid("args", "CreateQuotaPolicyArgs", args)
        ident = validation.limit_id(args.quota_policy_id, "quota_policy_id")
        for field in ("window_seconds", "max_requests_per_window", "max_concurrent", "jitter_ms"):
            validation.whole(getattr(args, field), field, 0, MAX_LIMIT_VALUE)
        validation.optional_timestamp(args.now, "now")
        validation.optional_namespace(args.namespace)
        now = await self.store.now_ms() if args.now is None else args.now
        answer = await self.store.commit(
            quotas.create(structs.replace(args, quota_policy_id=ident), now)
        )
        if isinstance(answer, Applied):
            return QuotaPolicyCreated(ident)
        refused = quotas.owned_elsewhere(await self._quota(ident), args)
        if refused is not None:
            raise refused
        return QuotaPolicyAlreadySatisfied(ident)

    async def read_quota_policy_limits(self, quota_policy_id: UUID) -> QuotaLimits | None:
        quota = await self._quota(validation.limit_id(quota_policy_id, "quota_policy_id"))
        return None if quota is None else quotas.limits_of(quota)

    async def close_quota(self, quota_policy_id: UUID, until_ms: int) -> None:
        """Nothing is admitted before this time: what an upstream means by Retry-After."""
        ident = validation.limit_id(quota_policy_id, "quota_policy_id")
        await self._set_closed(ident, validation.timestamp(until_ms, "until_ms"))

    async def open_quota(self, quota_policy_id: UUID) -> None:
        """Takes a closing back."""
        await self._set_closed(validation.limit_id(quota_policy_id, "quota_policy_id"), None)

    async def _set_closed(self, ident: UUID, until_ms: int | None) -> None:
        if not isinstance(await self.store.commit(quotas.set_closed(ident, until_ms)), Applied):
            raise quotas.unknown(ident)

    async def _quota(self, ident: UUID) -> QuotaPolicy | None:
        rows = (await self.store.load((Get("ff_quota_policy", (ident,)),))).rows[0]
        return QuotaPolicy(*rows[0]) if rows else None

    # ---- admission by hand

    async def check_admission(self, args: CheckAdmissionArgs) -> Admission:
        """Whether an execution may start under these limits; if so, it holds a slot until that is released."""
        if not isinstance(args, CheckAdmissionArgs):
            raise invalid("args", "CheckAdmissionArgs", args)
        ident = validation.limit_id(args.quota_policy_id, "quota_policy_id")
        own = execution_id(args.execution_id)
        for field in ("window_seconds", "rate_limit", "concurrency_cap"):
            validation.whole(getattr(args, field), field, 0, MAX_LIMIT_VALUE)
        jitter = (
            0
            if args.jitter_ms is None
            else validation.whole(args.jitter_ms, "jitter_ms", 0, MAX_LIMIT_VALUE)
        )
        dimension = (
            validation.text(args.dimension, "dimension", MAX_DIMENSION_BYTES) or DEFAULT_DIMENSION
        )
        validation.optional_timestamp(args.now, "now")
        said = structs.replace(args, quota_policy_id=ident, execution_id=own)
        extra = self._random.randint(0, jitter)

        async def load() -> tuple[int, LimitState]:
            return await self._standing(said, dimension)

        async with self._turns.of(ident):
            result: Admission = await self.settle(
                load,
                lambda found: quotas.check_admission(said, found[1], found[0], dimension, extra),
            )
        return result

    async def _standing(self, args: CheckAdmissionArgs, dimension: str) -> tuple[int, LimitState]:
        now = await self.store.now_ms() if args.now is None else args.now
        wanted = quotas.policy_of(args)
        window = quota_reads(wanted, now, dimension=dimension)
        own = Get(
            "ff_quota_admitted", (args.quota_policy_id, str(args.execution_id)), ("execution_id",)
        )
        loaded = await self.store.load(
            (Get("ff_quota_policy", (args.quota_policy_id,)), own, *window)
        )
        policy, mine = loaded.rows[:2]
        found = standing_of(QuotaPolicy(*policy[0]) if policy else None, loaded.rows[2:], now)
        return now, structs.replace(
            found, admitted=found.admitted | {args.execution_id.uuid for _ in mine}
        )

    async def release_admission(self, quota_policy_id: UUID, execution: ExecutionId) -> Released:
        """Gives back a slot taken by `check_admission`. Again, or without one, it is nothing."""
        ident = validation.limit_id(quota_policy_id, "quota_policy_id")
        await self.store.commit(quotas.release(ident, execution_id(execution)))
        return Released()

    async def block_execution_for_admission(
        self, args: BlockForAdmissionArgs
    ) -> Blocked | Rejected:
        """Holds a waiting execution back because of a limit."""
        if not isinstance(args, BlockForAdmissionArgs):
            raise invalid("args", "BlockForAdmissionArgs", args)
        ident = execution_id(args.execution_id)
        validation.partition_matches(args.partition, ident.partition_index)
        if args.lane_id != "":
            lane_id(args.lane_id)
        detail = validation.optional_text(args.reason_detail, "reason_detail") or ""
        validation.optional_text(args.blocked_on, "blocked_on", MAX_SCOPE_ID_BYTES)
        validation.optional_timestamp(args.now, "now")
        found: Blocked | LuaRejected = await self.decide(
            ident,
            lambda snapshot: grants.block(
                snapshot, str(args.reason), detail, args.now, args.blocked_on
            ),
        )
        return Rejected(found.message) if isinstance(found, LuaRejected) else found

    # ---- attaching

    async def attach_limit(
        self, kind: str, limit_id: UUID, scope_type: str, scope_id: str | UUID
    ) -> bool:
        """What is created there from now on is under this limit; whether it was not attached before.

        It reaches executions of its own namespace. A flow or a namespace that is not of it is refused.
        """
        named = await self._owned_scope(_scope(kind, limit_id, scope_type, scope_id))
        if sum(map(len, (await self._attachments.scopes()).values())) >= MAX_LIMIT_SCOPES:
            raise ResourceExhausted("attached limits", MAX_LIMIT_SCOPES)
        answer = await self.store.commit(limit_scopes.ATTACH(**named))
        self._attachments.forget()
        return isinstance(answer, Applied)

    async def _owned_scope(self, named: dict[str, Any]) -> dict[str, Any]:
        """With the namespace of the limit, if the scope may be of it."""
        limit = (named["kind"], named["limit_id"])
        namespace = (await self._attachments.namespaces([limit])).get(limit)
        if namespace is None:
            raise NotFound(limit_scopes.UNKNOWN[named["kind"]], named["limit_id"])
        where = named["scope_id"]
        if (
            named["scope_type"] == "flow"
        ):  # one that is still to be made is reached if it is of the same namespace then
            flow = await self.describe_flow(UUID(where))
            owner = None if flow is None else flow.namespace
        else:
            owner = where
        if named["scope_type"] in ("flow", "namespace") and owner not in (None, namespace):
            raise NotFound(named["scope_type"], where)
        return {**named, "namespace": namespace}

    async def read_limit_namespace(self, kind: str, limit_id: UUID) -> str | None:
        """Where a budget or a quota belongs; None for one that was never made."""
        limit = (_kind(kind), validation.limit_id(limit_id, "limit_id"))
        return (await self._attachments.namespaces([limit])).get(limit)

    async def detach_limit(
        self, kind: str, limit_id: UUID, scope_type: str, scope_id: str | UUID
    ) -> bool:
        """What is created there from now on is not under it any more; whether it was attached."""
        answer = await self.store.commit(
            limit_scopes.DETACH(**_scope(kind, limit_id, scope_type, scope_id))
        )
        self._attachments.forget()
        return isinstance(answer, Applied)

    async def list_limit_scopes(
        self,
        after: LimitScope | None = None,
        limit: int = MAX_SCOPES_PAGE,
        namespace: str | None = None,
    ) -> Page[LimitScope]:
        """What is attached where, by scope; `after` is the last of the page before. None stands for all namespaces."""
        validation.optional_namespace(namespace)
        size = validation.limit(limit, MAX_SCOPES_PAGE)
        if after is not None and not isinstance(after, LimitScope):
            raise invalid("after", "the last LimitScope of the page before", after)
        found: list[LimitScope] = []
        last = after
        while len(found) <= size and size:
            position = (
                None if last is None else (last.scope_type, last.scope_id, last.kind, last.limit_id)
            )
            rows = (
                await self.store.load((Scan("limit_scopes", {}, position, limit=MAX_SCOPES_PAGE),))
            ).rows[0]
            page = [LimitScope(*row) for row in rows]
            found += [scope for scope in page if namespace in (None, scope.namespace)]
            if len(page) < MAX_SCOPES_PAGE:
                break
            last = page[-1]
        return Page(found[:size], found[size - 1] if len(found) > size else None)


def _kind(kind: object) -> str:
    if kind not in LIMIT_KINDS:
        raise invalid("kind", "budget or quota", kind)
    return str(kind)


def _scope(kind: object, limit: object, scope_type: object, scope: object) -> dict[str, Any]:
    kind = _kind(kind)
    if scope_type not in SCOPE_TYPES:
        raise invalid("scope_type", ", ".join(SCOPE_TYPES), scope_type)
    ident = validation.limit_id(limit, "limit_id")
    match scope_type:
        case "flow":
            where = str(validation.flow_id(scope, "scope_id"))
        case "lane":
            where = lane_id(scope, "scope_id")
        case "namespace":
            where = name(scope, "scope_id")
        case _:
            where = validation.text(scope, "scope_id", MAX_SCOPE_ID_BYTES)
            if not where.partition("=")[0] or "=" not in where:
                raise invalid("scope_id", "key=value of a tag", scope)
    return {"kind": kind, "limit_id": ident, "scope_type": scope_type, "scope_id": where}
