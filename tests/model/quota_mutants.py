"""Planted bugs of quotas, for the machine of quotas to notice."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from msgspec import structs

from flowfabric.engine.claims import gated_claims, quota_cache
from flowfabric.engine.claims.claimer import sweep_plan
from flowfabric.engine.claims.claims import Claims
from flowfabric.engine.claims.quota_cache import QuotaCache
from flowfabric.engine.executions import create
from flowfabric.engine.limits import quota_maintenance
from flowfabric.engine.workers.retention import Retention
from flowfabric.model.quota import QuotaPolicy
from flowfabric.plan import Add
from flowfabric.rules.claims import admission
from flowfabric.rules.claims.admission import Capacity
from flowfabric.rules.limits import limit_scopes, quotas

from .mutants import Patch, Plant, put, with_set, without_steps
from .turnover_mutants import TURNOVER_MUTANTS

QUOTA_MUTANTS: dict[str, Plant] = {}


def mutant(plant: Plant) -> Plant:
    QUOTA_MUTANTS[plant.__name__] = plant
    return plant


def asking(patch: Patch, change: Callable[..., tuple[Any, int]]) -> None:
    """The capacity is computed by the real rule from another quota or number of holders."""
    honest = admission.capacity_of

    def capacity_of(quota: Any, held: int, window: Any, now_ms: int) -> Capacity:
        return honest(
            *(change(quota, held) if quota is not None else (quota, held)), window, now_ms
        )

    for module in (admission, quota_cache, quota_maintenance):
        patch.setattr(module, "capacity_of", capacity_of)


def counting(patch: Patch, **changes: Any) -> None:
    """Some holders of a slot are not counted."""
    honest = admission.slot_holders
    for module in (admission, quota_cache, quota_maintenance):
        patch.setattr(
            module, "slot_holders", lambda found: honest(structs.replace(found, **changes))
        )


# ---- capacity


@mutant
def entry_of_exactly_one_window_counts(patch: Patch) -> None:
    patch.setattr(admission, "bisect_right", bisect_left)


@mutant
def one_more_than_the_cap(patch: Patch) -> None:
    asking(patch, lambda quota, held: (quota, held - 1))


@mutant
def closing_is_ignored(patch: Patch) -> None:
    asking(patch, lambda quota, held: (structs.replace(quota, closed_until_ms=None), held))


@mutant
def closed_through_its_last_moment(patch: Patch) -> None:
    def change(quota: Any, held: int) -> tuple[Any, int]:
        until = quota.closed_until_ms
        return structs.replace(quota, closed_until_ms=None if until is None else until + 1), held

    asking(patch, change)


@mutant
def a_rate_of_none_is_a_rate_of_one(patch: Patch) -> None:
    asking(
        patch,
        lambda quota, held: (
            structs.replace(quota, max_requests_per_window=quota.max_requests_per_window or 1),
            held,
        ),
    )


# ---- holders


@mutant
def reservations_hold_no_place(patch: Patch) -> None:
    counting(patch, reserved=frozenset())


@mutant
def places_by_hand_are_not_counted(patch: Patch) -> None:
    counting(patch, admitted=frozenset())


@mutant
def reservations_that_ran_out_hold_their_place(patch: Patch) -> None:
    honest = quota_cache.quota_reads

    def quota_reads(quota: Any, now_ms: int, *args: Any, **more: Any) -> Any:
        reads = honest(quota, now_ms, *args, **more)
        return [reads[0], structs.replace(reads[1], after=None), *reads[2:]]

    patch.setattr(quota_cache, "quota_reads", quota_reads)
    honest_standing = quota_cache.standing_of
    patch.setattr(
        quota_cache, "standing_of", lambda quota, rows, now_ms: honest_standing(quota, rows, 0)
    )


# ---- what is remembered


@mutant
def those_admitted_are_not_remembered(patch: Patch) -> None:
    honest = QuotaCache.admitted

    def admitted(self: QuotaCache, quota: Any, times: list[int]) -> None:
        honest(self, quota, [])

    patch.setattr(QuotaCache, "admitted", admitted)


@mutant
def admissions_leave_the_version(patch: Patch) -> None:
    put(patch, admission, "TOUCH_QUOTA", lambda f: with_set(f, version=Add(0)))


# ---- entries


@mutant
def claims_leave_no_entry(patch: Patch) -> None:
    patch.setattr(gated_claims, "CLAIM_COUNTED", gated_claims.CLAIM_GATED)


@mutant
def starts_of_one_leave_no_entry(patch: Patch) -> None:
    patch.setattr(admission, "ADMITTING", {form: form for form in admission.ADMITTING})


@mutant
def admission_by_hand_leaves_no_entry(patch: Patch) -> None:
    put(patch, quotas, "ADMIT", lambda f: without_steps(f, "ff_quota_window"))


@mutant
def unused_grants_are_not_refunded(patch: Patch) -> None:
    async def refund(self: Retention, unused: Any) -> None:
        return None

    patch.setattr(Retention, "_refund", refund)


# ---- who is next


@mutant
def plain_work_goes_first(patch: Patch) -> None:
    honest = gated_claims.queue_order
    patch.setattr(
        gated_claims,
        "queue_order",
        lambda found: sorted(honest(found), key=lambda c: c.gate != ""),
    )


@mutant
def a_full_gate_stops_the_claim(patch: Patch) -> None:
    honest = gated_claims.distribute

    def distribute(requests: Any, candidates: Any, rooms: Any, over: Any, now_ms: int) -> Any:
        several = list(candidates)
        full = next((at for at, c in enumerate(several) if rooms.get(c.gate) == 0), len(several))
        return honest(requests, several[:full], rooms, over, now_ms)

    patch.setattr(gated_claims, "distribute", distribute)


@mutant
def a_grant_is_asked_again(patch: Patch) -> None:
    honest = admission.admitted

    def admitted(snapshot: Any, decision: Any) -> Any:
        until = {"reserved_until_ms": None}
        known = snapshot.execution
        return honest(
            snapshot
            if known is None
            else structs.replace(snapshot, execution=structs.replace(known, **until)),
            decision,
        )

    patch.setattr(admission, "admitted", admitted)


# ---- beside an end


@mutant
def gates_are_not_asked_beside_an_end(patch: Patch) -> None:
    async def commit_and_claim(self: Claims, plans: Any, claimer: Any) -> Any:
        return await self._store.commit_and_sweep(plans, sweep_plan(claimer), claimer.wanted)

    patch.setattr(Claims, "commit_and_claim", commit_and_claim)


@mutant
def what_ends_makes_no_room_for_the_next(patch: Patch) -> None:
    async def commit_and_claim(self: Claims, plans: Any, claimer: Any) -> Any:
        rows, _ = await self._claim_now(claimer)
        return await self._store.commit_many(plans), rows

    patch.setattr(Claims, "commit_and_claim", commit_and_claim)


@mutant
def one_more_is_claimed_beside_an_end(patch: Patch) -> None:
    TURNOVER_MUTANTS["one_more_is_claimed_beside_an_end"](patch)


# ---- attaching


@mutant
def the_farthest_scope_counts(patch: Patch) -> None:
    patch.setattr(limit_scopes, "SCOPE_TYPES", limit_scopes.SCOPE_TYPES[::-1])


@mutant
def the_first_attached_counts(patch: Patch) -> None:
    patch.setattr(limit_scopes, "max", min, raising=False)


@mutant
def an_own_quota_gives_way_to_a_scope(patch: Patch) -> None:
    honest = limit_scopes.attached

    def attached(args: Any, policy: Any, scopes: Any, flow_id: Any = None) -> Any:
        found = honest(args, None, scopes, flow_id)
        return honest(args, policy, scopes, flow_id) if found.quota_policy_id is None else found

    patch.setattr(create, "attached", attached)


# ---- upkeep


@mutant
def reconciler_drops_the_places_of_those_that_run(patch: Patch) -> None:
    honest = quotas.is_orphan

    def is_orphan(slot: Any, execution: Any, now_ms: int) -> bool:
        return honest(
            slot,
            None if execution is None else structs.replace(execution, lifecycle_phase="runnable"),
            now_ms,
        )

    patch.setattr(quotas, "is_orphan", is_orphan)


@mutant
def reconciler_keeps_what_is_a_window_old(patch: Patch) -> None:
    honest = quota_maintenance.QuotaMaintenance._forget_entries

    async def forget_entries(self: Any, quota: Any) -> int:
        longer = structs.replace(quota, requests_per_window_seconds=2 * quota.window_ms // 1_000)
        return await honest(self, longer)

    patch.setattr(quota_maintenance.QuotaMaintenance, "_forget_entries", forget_entries)


@mutant
def all_that_wait_for_a_quota_are_let_go(patch: Patch) -> None:
    honest = quotas.is_lifted
    patch.setattr(quotas, "is_lifted", lambda execution, over, rooms: honest(execution, over, {}))


# ---- other limits


@mutant
def a_shorter_window_is_remembered_for_a_longer_one(patch: Patch) -> None:
    patch.setattr(QuotaPolicy, "admits_as", lambda quota, other: True)


@mutant
def limits_of_another_namespace_are_reached(patch: Patch) -> None:
    patch.setattr(create, "unknown", lambda named, known, namespace: None)


@mutant
def what_is_attached_reaches_every_namespace(patch: Patch) -> None:
    honest = limit_scopes.attached

    def attached(args: Any, policy: Any, scopes: Any, flow_id: Any = None) -> Any:
        own = {
            key: tuple(structs.replace(s, namespace=args.namespace) for s in several)
            for key, several in scopes.items()
        }
        return honest(args, policy, own, flow_id)

    patch.setattr(create, "attached", attached)


@mutant
def nobody_held_back_goes_on_with_other_limits(patch: Patch) -> None:
    async def nothing(*_: Any) -> None:
        pass

    patch.setattr(quota_maintenance.QuotaMaintenance, "_release_waiters_of", nothing)
