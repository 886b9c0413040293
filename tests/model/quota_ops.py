"""Each operation on quotas twice: the call of the engine, and the expectation of the
specification.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any
from uuid import UUID

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.model.quota import CheckAdmissionArgs, CreateQuotaPolicyArgs, UpdateQuotaPolicyArgs

from .bench import Bench, Mismatch
from .ops import Op, as_json
from .quota_spec import USUAL, Full, Quota, Quotas, Wish, quota_differences
from .shapes import Policy

POLICY = Policy(max_retries=2, first_ms=200, losses=1_000)
NOTHING: frozenset[str] = frozenset()
Asking = tuple[tuple[str, int], ...]
NAMESPACES = ("default", "a")


class QuotaBench(Bench):
    spec: Quotas

    def compare(self, name: str | None = None, answer: Any = None, tables: Any = None) -> None:
        super().compare(name, answer, tables)
        problems = quota_differences(self.spec, self.world, self.tables)
        if problems:
            self._fail(name or "the stored rows", problems)

    def disagreement(self, spec: Any, expected: Any, answer: Any) -> str:
        if isinstance(expected, Full) and isinstance(answer, EngineError):
            wait = getattr(answer, "facts", {}).get("retry_after_ms")
            if wait != (None if expected.wait is None else str(expected.wait)):
                return f"specified to wait {expected.wait}, answered {wait}"
        return super().disagreement(spec, expected, answer)


def define(ident: UUID, made: Quota) -> Op:
    args = CreateQuotaPolicyArgs(
        quota_policy_id=ident,
        window_seconds=made.seconds,
        max_requests_per_window=made.rate,
        max_concurrent=made.cap,
        namespace=made.namespace,
    )
    return Op(
        f"define {made}",
        lambda e: e.create_quota_policy(args),
        lambda s: s.define(ident, copy.copy(made)),
    )


def change(ident: UUID, made: Quota) -> Op:
    limits = {
        "window_seconds": made.seconds,
        "max_requests_per_window": made.rate,
        "max_concurrent": made.cap,
    }
    args = UpdateQuotaPolicyArgs(quota_policy_id=ident, **limits)
    return Op(
        f"change {made}", lambda e: e.update_quota_policy(args), lambda s: s.change(ident, made)
    )


def close(ident: UUID, until: int | None) -> Op:
    if until is None:
        return Op("open", lambda e: e.open_quota(ident), lambda s: s.close(ident, None))
    return Op("close", lambda e: e.close_quota(ident, until), lambda s: s.close(ident, until))


def attach(ident: UUID, where: tuple[str, str]) -> Op:
    return Op(
        f"attach {where}",
        lambda e: e.attach_limit("quota", ident, *where),
        lambda s: s.attach(ident, where),
    )


def detach(ident: UUID, where: tuple[str, str]) -> Op:
    return Op(
        f"detach {where}",
        lambda e: e.detach_limit("quota", ident, *where),
        lambda s: s.detach(ident, where),
    )


def create(ident: ExecutionId, wish: Wish) -> Op:
    said = as_json(POLICY) or {}
    key, _, value = wish.tag.partition("=")
    args = CreateExecutionArgs(
        execution_id=ident,
        lane_id=wish.lane,
        namespace=wish.namespace,
        priority=wish.prio,
        policy=said if wish.own is None else {**said, "quota_policy_id": str(wish.own)},
        tags={key: value} if key else {},
    )
    return Op(
        f"create {ident} {wish}",
        lambda e: e.create_execution(args),
        lambda s: s.new(ident, wish, POLICY),
    )


def claims(lane: str, several: Asking, ttl: int) -> Op:
    """One worker after the other, in one namespace and then in the other."""
    asked = [
        (ClaimPolicy(worker, f"{worker}-1", ttl, namespace=of), n)
        for of in NAMESPACES
        for worker, n in several
    ]

    async def call(engine: Engine) -> list[Any]:
        return [
            work
            for policy, n in asked
            for work in await engine.claim_many(lane, NOTHING, policy, n)
        ]

    def expect(spec: Any) -> list[Any]:
        return [
            one
            for of in NAMESPACES
            for worker, n in several
            for one in spec.claim(lane, NOTHING, of, worker, f"{worker}-1", ttl, n)
        ]

    return Op(f"claim {lane} {several}", call, expect)


def claims_at_once(lane: str, worker: str, sizes: tuple[int, ...], ttl: int) -> Op:
    """The first caller gets as many as it would alone; which of those behind one gate is not
    specified.
    """
    policy = ClaimPolicy(worker, f"{worker}-1", ttl)
    wanted: list[int] = []

    async def call(engine: Engine) -> list[Any]:
        got = await asyncio.gather(*(engine.claim_many(lane, NOTHING, policy, n) for n in sizes))
        if [len(each) for each in got] != wanted:
            raise Mismatch(
                f"specified {wanted} for {sizes}, answered {[len(each) for each in got]}"
            )
        return sorted((work for each in got for work in each), key=lambda work: work.execution_id)

    def expect(spec: Any) -> list[Any]:
        got = spec.claims(lane, "default", worker, f"{worker}-1", ttl, sizes)
        wanted[:] = [len(each) for each in got]
        return sorted((one for each in got for one in each), key=lambda one: one.ident)

    return Op(f"claim {lane} at once {sizes}", call, expect)


def ask(ident: UUID, who: ExecutionId, limits: Quota, dimension: str = "") -> Op:
    args = CheckAdmissionArgs(
        quota_policy_id=ident,
        execution_id=who,
        window_seconds=limits.seconds,
        rate_limit=limits.rate,
        concurrency_cap=limits.cap,
        dimension=dimension,
    )
    return Op(
        "ask",
        lambda e: e.check_admission(args),
        lambda s: s.ask(ident, who, limits, dimension or USUAL),
    )


def let_go(ident: UUID, who: ExecutionId) -> Op:
    return Op("let go", lambda e: e.release_admission(ident, who), lambda s: s.let_go(ident, who))


def reconcile() -> Op:
    return Op("reconcile", lambda e: e.reconcile_quota_counters(), lambda s: s.reconcile())


def release_limited() -> Op:
    return Op("release limited", lambda e: e.release_limited(), lambda s: s.release_limited())
