"""The specification of quotas: slots and entries are counted again for every single start."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model import execution, lease
from flowfabric.model import quota as told
from flowfabric.store.port import Row
from flowfabric.store.schema import TABLES
from flowfabric.verify.snapshot import Snapshot

from .fleet import Fleet
from .shapes import Err, Exec, Lease, Policy, no

USUAL = "default"
HAND_GRACE_MS = 30_000
NEAREST_FIRST = ("tag", "lane", "namespace")


@dataclass
class Quota:
    """`0` is no limit; a window of 0 seconds is a minute. `shown` is the last published number of
    its holders.
    """

    cap: int = 0
    rate: int = 0
    seconds: int = 0
    closed: int | None = None
    shown: int = 0
    namespace: str = "default"

    @property
    def window(self) -> int:
        return 1_000 * (self.seconds or 60)


@dataclass(frozen=True)
class Wish:
    """The arguments of a new execution."""

    lane: str
    namespace: str = "default"
    tag: str = ""
    own: UUID | None = None
    prio: int = 0


class Full(Err):
    """A refusal with the time to wait, where known."""

    def __init__(self, code: str, wait: int | None = None) -> None:
        super().__init__(code)
        self.wait = wait


class Quotas(Fleet):
    tables: ClassVar[tuple[str, ...]] = ("ff_limit_scope",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.quotas: dict[UUID, Quota] = {}
        self.scopes: dict[tuple[str, str, UUID], int] = {}
        self.under: dict[ExecutionId, UUID | None] = {}
        self.entries: set[tuple[UUID, str, int, UUID]] = set()
        self.slots: dict[tuple[UUID, ExecutionId], int] = {}
        self.issued: dict[ExecutionId, int] = {}
        self.blocked: dict[ExecutionId, int] = {}

    def times(self) -> list[int]:
        ahead = [
            at + self.quotas[quota].window
            for quota, _, at, _ in self.entries
            if quota in self.quotas
        ]
        ahead += [quota.closed for quota in self.quotas.values() if quota.closed is not None]
        return sorted({*super().times(), *(at for at in ahead if at > self.now)})

    # ---- defining and attaching

    def define(self, ident: UUID, made: Quota) -> Any:
        if ident in self.quotas:
            return told.QuotaPolicyAlreadySatisfied(ident)
        self.quotas[ident] = made
        return told.QuotaPolicyCreated(ident)

    def change(self, ident: UUID, made: Quota) -> Any:
        """Applies from the next claim on; executions blocked for it continue, as many as it has
        room for.
        """
        no(ident not in self.quotas, "quota_policy_not_found")
        rule = self.quotas[ident]
        old, new = (told.QuotaLimits(q.rate, q.seconds, q.cap, 0) for q in (rule, made))
        if old == new:
            return told.QuotaPolicyUnchanged(ident)
        rule.cap, rule.rate, rule.seconds = made.cap, made.rate, made.seconds
        held = [
            e
            for e in self.execs.values()
            if (e.state, e.why) == ("QUOTA", "waiting_for_quota") and self.under[e.ident] == ident
        ]
        room = self._room(ident)
        for at, e in enumerate(sorted(held, key=lambda e: (-e.prio, e.created, e.ident.uuid))):
            if at < room:
                self.unblock(e.ident, "")
        return told.QuotaPolicyUpdated(ident, old, new)

    def close(self, ident: UUID, until: int | None) -> None:
        no(ident not in self.quotas, "quota_policy_not_found")
        self.quotas[ident].closed = until

    def attach(self, ident: UUID, where: tuple[str, str]) -> bool:
        no(ident not in self.quotas, "quota_policy_not_found")
        no(
            where[0] == "namespace" and where[1] != self.quotas[ident].namespace,
            "namespace_not_found",
        )
        new = (*where, ident) not in self.scopes
        self.scopes.setdefault((*where, ident), self.now)
        return new

    def detach(self, ident: UUID, where: tuple[str, str]) -> bool:
        return self.scopes.pop((*where, ident), None) is not None

    def new(self, ident: ExecutionId, wish: Wish, policy: Policy) -> Any:
        own = None if wish.own is None else self.quotas.get(wish.own)
        no(
            wish.own is not None and (own is None or own.namespace != wish.namespace),
            "quota_policy_not_found",
        )
        answer = self.create(ident, wish.lane, wish.namespace, wish.prio, "", policy, None)
        if isinstance(answer, execution.Created):
            self.under[ident] = wish.own or self._nearest(wish)
        return answer

    def _nearest(self, wish: Wish) -> UUID | None:
        at = {"tag": wish.tag, "lane": wish.lane, "namespace": wish.namespace}
        for kind in NEAREST_FIRST:
            found = [
                (when, quota)
                for (k, where, quota), when in self.scopes.items()
                if (k, where) == (kind, at[kind])
            ]
            here = [
                (when, quota)
                for when, quota in found
                if self.quotas[quota].namespace == wish.namespace
            ]
            if here:
                return max(here)[1]
        return None

    # ---- counting

    def held(self, quota: UUID) -> set[UUID]:
        """Running executions, live reservations, and slots acquired by a caller; each once."""
        mine = [e for e in self.execs.values() if self.under[e.ident] == quota]
        running = {e.ident.uuid for e in mine if e.state == "RUNNING" or self.live(e) is not None}
        return running | {who.uuid for at, who in self.slots if at == quota}

    def counted(self, quota: UUID, window: int, dimension: str = USUAL) -> list[int]:
        """The start times that still count: one exactly a window old does not."""
        return sorted(
            at
            for q, d, at, _ in self.entries
            if (q, d) == (quota, dimension) and at > self.now - window
        )

    def has_place(self, e: Exec) -> bool:
        return self.live(e) is not None or (self.under[e.ident], e.ident) in self.slots

    def start(self, e: Exec) -> None:
        """One more, or a refusal."""
        ident = self.under[e.ident]
        quota = None if ident is None else self.quotas.get(ident)
        if ident is None or quota is None:
            return
        if quota.closed is not None and quota.closed > self.now:
            raise Full("rate_limit_exceeded", quota.closed - self.now)
        times = self.counted(ident, quota.window)
        if quota.rate and len(times) >= quota.rate:
            raise Full("rate_limit_exceeded", times[-quota.rate] + quota.window - self.now)
        if quota.cap and len(self.held(ident) - {e.ident.uuid}) >= quota.cap:
            raise Full("concurrency_limit_exceeded")
        if quota.rate:
            self.entries.add((ident, USUAL, self.now, e.ident.uuid))

    # ---- starting

    def take(
        self,
        lane: str,
        caps: frozenset[str],
        of: str | None,
        worker: str,
        instance: str,
        ttl: int,
        n: int,
    ) -> list[Lease]:
        return self.claims(lane, of, worker, instance, ttl, (n,))[0]

    def claims(
        self,
        lane: str,
        of: str | None,
        worker: str,
        instance: str,
        ttl: int,
        sizes: tuple[int, ...],
    ) -> list[list[Lease]]:
        """The best that may start, one by one, to the first caller; one that may not blocks no
        other. Slots acquired by a caller are not considered: until the claim is over, such an
        execution takes a second slot.
        """
        ready = [
            e
            for e in self.execs.values()
            if (e.lane, e.namespace) == (lane, of) and not self.held_back(e)
        ]
        got: list[list[Lease]] = [[] for _ in sizes]
        twice: list[UUID | None] = []
        for e in sorted(ready, key=lambda e: (-e.prio, e.created, e.ident.uuid)):
            grant = self.live(e)
            at = next((at for at, n in enumerate(sizes) if len(got[at]) < n), None)
            if at is None or (grant is not None and grant.worker != worker):
                continue
            if grant is None and not self._may_begin(e, twice):
                continue
            got[at].append(self.acquire(e, worker, instance, ttl))
        return got

    def _may_begin(self, e: Exec, twice: list[UUID | None]) -> bool:
        ident = self.under[e.ident]
        quota = self.quotas.get(ident) if ident is not None else None
        if ident is None or quota is None:
            return True
        if quota.cap and len(self.held(ident)) + twice.count(ident) >= quota.cap:
            return False
        try:
            self.start(e)
        except Full:
            return False
        twice += [ident] if (ident, e.ident) in self.slots else []
        return True

    def _one(self, ident: ExecutionId, call: Callable[[], Any]) -> Any:
        """A start of one execution; one with a slot is not checked again."""
        e = self.execs.get(ident)
        before, asked = copy.deepcopy(e), e is not None and not self.has_place(e)
        answer = call()
        if e is None or not isinstance(answer, (Lease, lease.Granted, int)):
            return answer
        if asked:
            try:
                self.start(e)
            except Full:
                assert before is not None
                self.execs[ident] = before
                raise
        if e.grant is not None:
            self.issued[ident] = self.now
        return answer

    def issue_claim_grant(self, ident: ExecutionId, *args: Any) -> Any:
        return self._one(ident, lambda: super(Quotas, self).issue_claim_grant(ident, *args))

    def claim_execution(self, ident: ExecutionId, *args: Any) -> Any:
        return self._one(ident, lambda: super(Quotas, self).claim_execution(ident, *args))

    def claim_resumed(self, ident: ExecutionId, *args: Any) -> Any:
        return self._one(ident, lambda: super(Quotas, self).claim_resumed(ident, *args))

    def grant_and_claim(self, ident: ExecutionId, *args: Any) -> Any:
        return self._one(ident, lambda: super(Quotas, self).grant_and_claim(ident, *args))

    def resume(self, ident: ExecutionId, *args: Any) -> Any:
        return self._one(ident, lambda: super(Quotas, self).resume(ident, *args))

    def issue_reclaim_grant(self, ident: ExecutionId, *args: Any) -> Any:
        return self._one(ident, lambda: super(Quotas, self).issue_reclaim_grant(ident, *args))

    def reclaim(self, ident: ExecutionId, *args: Any) -> Any:
        return self._one(ident, lambda: super(Quotas, self).reclaim(ident, *args))

    # ---- by hand

    def ask(self, ident: UUID, who: ExecutionId, limits: Quota, dimension: str) -> Any:
        """The limits are the arguments; running executions are known only with a cap."""
        if (ident, who) in self.slots or (limits.cap and who.uuid in self.held(ident)):
            return told.AlreadyAdmitted()
        times = self.counted(ident, limits.window, dimension)
        if limits.rate and len(times) >= limits.rate:
            return told.RateExceeded(times[-limits.rate] + limits.window - self.now)
        if limits.cap and len(self.held(ident)) >= limits.cap:
            return told.ConcurrencyExceeded()
        self.slots[ident, who] = self.now
        self.entries.add((ident, dimension, self.now, who.uuid))
        return told.Admitted()

    def let_go(self, ident: UUID, who: ExecutionId) -> Any:
        self.slots.pop((ident, who), None)
        return told.Released()

    # ---- upkeep

    def block(self, ident: ExecutionId, reason: str) -> Any:
        answer = super().block(ident, reason)
        if isinstance(answer, execution.Blocked):
            self.blocked[ident] = self.now
        return answer

    def release_limited(self) -> int:
        """Longest blocked first, and of one quota as many as it has room for."""
        waiting = [e for e in self.execs.values() if e.state in ("BUDGET", "QUOTA")]
        taken: dict[UUID, int] = {}
        freed = 0
        for e in sorted(waiting, key=lambda e: (self.blocked[e.ident], e.ident.uuid)):
            ident = self.under[e.ident]
            if e.state == "QUOTA" and ident in self.quotas:
                if self._room(ident) <= taken.get(ident, 0):
                    continue
                taken[ident] = taken.get(ident, 0) + 1
            self.unblock(e.ident, "")
            freed += 1
        return freed

    def _room(self, ident: UUID) -> float:
        quota, endless = self.quotas[ident], float("inf")
        if quota.closed is not None and quota.closed > self.now:
            return 0
        by_rate = quota.rate - len(self.counted(ident, quota.window)) if quota.rate else endless
        return min(by_rate, quota.cap - len(self.held(ident)) if quota.cap else endless)

    def reconcile(self) -> Any:
        changed = 0
        for ident, quota in self.quotas.items():
            before = (len(self.entries), len(self.slots), quota.shown)
            self.entries = {
                e for e in self.entries if e[0] != ident or e[2] > self.now - quota.window
            }
            for (at, who), since in list(self.slots.items()):
                e = self.execs.get(who)
                idle = e is not None and e.state not in ("RUNNING", "LOST") and self.live(e) is None
                if at == ident and idle and since <= self.now - HAND_GRACE_MS:
                    del self.slots[at, who]
            quota.shown = len(self.held(ident))
            changed += before != (len(self.entries), len(self.slots), quota.shown)
        return told.Reconciled(changed)

    def loop(self, name: str) -> None:
        if name == "quota_reconciler":
            self.reconcile()
        elif name == "lease_expiry":
            for e in self.execs.values():
                quota = self.under[e.ident]
                if e.grant is not None and self.live(e) is None and quota is not None:
                    self.entries.discard((quota, USUAL, self.issued[e.ident], e.ident.uuid))
        super().loop(name)


def quota_differences(spec: Quotas, world: Snapshot, tables: Mapping[str, list[Row]]) -> list[str]:
    return [
        f"{what}: specified {wanted!r}, stored {is_!r}"
        for what, wanted, is_ in _compared(spec, world, tables)
        if wanted != is_
    ]


def _compared(
    spec: Quotas, world: Snapshot, tables: Mapping[str, list[Row]]
) -> Iterator[tuple[str, Any, Any]]:
    wanted = {
        ident: (q.cap, q.rate, q.window, q.closed, q.shown) for ident, q in spec.quotas.items()
    }
    stored = {
        ident: (
            q.active_concurrency_cap,
            q.max_requests_per_window,
            q.window_ms,
            q.closed_until_ms,
            q.active_concurrency,
        )
        for ident, q in world.quotas.items()
    }
    yield "quotas", wanted, stored
    yield "windows", sorted(spec.entries), sorted(tuple(row) for row in world.quota_windows)
    yield (
        "places by hand",
        {(q, str(who)): at for (q, who), at in spec.slots.items()},
        {row[:2]: row[2] for row in world.slots},
    )
    names = TABLES["ff_limit_scope"].names
    scopes = [dict(zip(names, row, strict=True)) for row in tables["ff_limit_scope"]]
    yield (
        "scopes",
        spec.scopes,
        {(s["scope_type"], s["scope_id"], s["limit_id"]): s["attached_at_ms"] for s in scopes},
    )
    under = {(who.partition_index, who.uuid): spec.under[who] for who in spec.execs}
    yield "attached", under, {key: e.quota_policy_id for key, e in world.executions.items()}
    for ident in {quota for quota in under.values() if quota is not None}:
        yield f"held of {ident}", spec.held(ident), _holders(ident, spec.now, world)


def _holders(quota: UUID, now: int, world: Snapshot) -> set[UUID]:
    mine = [e for e in world.executions.values() if e.quota_policy_id == quota]
    found = {
        e.execution_id
        for e in mine
        if e.ownership_state == "leased" or (e.reserved_until_ms or 0) >= now
    }
    return found | {ExecutionId(row[1]).uuid for row in world.slots if row[0] == quota}
