"""Planted bugs. Each is a change of one form, rule or index that the model tests have to notice."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec
import pytest

from flowfabric.engine.claims.namespace_rotation import NamespaceRotation
from flowfabric.engine.workers.retention import Retention
from flowfabric.loops import timers
from flowfabric.plan import Absent, AnyOf, Covered, Form, Guard, Insert, Until, Update
from flowfabric.rules import fence, retries
from flowfabric.rules.claims import claims, grants, routing
from flowfabric.rules.decision import Return
from flowfabric.rules.executions import create, operator_actions, replay, time_limits
from flowfabric.rules.fragments import IN_TIME
from flowfabric.rules.leases import attempts, expiry, reclaim, renewal
from flowfabric.rules.workers import registry
from flowfabric.store.schema import INDEXES

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
MUTANTS: dict[str, Plant] = {}

BY_HOLDER = (
    "RENEW",
    "PROGRESS",
    "PROGRESS_PERCENT",
    "PROGRESS_MESSAGE",
    "COMPLETE",
    "FAIL_FOR_GOOD",
    "FAIL_RETRY_LATER",
    "FAIL_RETRY_NOW",
    "DELAY",
    "GIVE_UP",
)


def mutant(plant: Plant) -> Plant:
    MUTANTS[plant.__name__] = plant
    return plant


# ---- changing a form, without asking whether the result is a sound one


def with_steps(form: Form, steps: tuple[Any, ...]) -> Form:
    made = copy.copy(form)
    made.steps = steps
    return made


def with_head(form: Form, change: Callable[[Any], Any]) -> Form:
    return with_steps(form, (change(form.steps[0]), *form.steps[1:]))


def without_guards(form: Form, *columns: str) -> Form:
    def change(head: Update) -> Update:
        kept = tuple(g for g in head.where if getattr(g, "column", None) not in columns)
        return Update(head.table, kept, head.set)

    return with_head(form, change)


def with_set(form: Form, **changes: Any) -> Form:
    return with_head(form, lambda head: Update(head.table, head.where, {**head.set, **changes}))


def without_set(form: Form, *columns: str) -> Form:
    return with_head(
        form,
        lambda head: Update(
            head.table, head.where, {c: v for c, v in head.set.items() if c not in columns}
        ),
    )


def without_steps(form: Form, table: str) -> Form:
    return with_steps(form, tuple(s for s in form.steps if s.table != table))


def picking(form: Form, **changes: Any) -> Form:
    made = copy.copy(form)
    assert form.pick is not None
    made.pick = msgspec.structs.replace(form.pick, **changes)
    return made


def not_asking(form: Form, kind: type[Guard]) -> Form:
    assert form.pick is not None
    return picking(form, where=tuple(g for g in form.pick.where if not isinstance(g, kind)))


def put(patch: Patch, module: ModuleType, name: str, change: Callable[[Form], Form]) -> None:
    patch.setattr(module, name, change(getattr(module, name)))


def put_all(patch: Patch, names: tuple[str, ...], change: Callable[[Form], Form]) -> None:
    for name in names:
        put(patch, attempts if hasattr(attempts, name) else renewal, name, change)


def put_ending(
    patch: Patch, module: ModuleType, name: str, change: Callable[[Form], Form], *when: str
) -> None:
    """The same for some forms of an `Endings`."""
    forms = getattr(module, name)
    patch.setattr(module, name, forms._replace(**{w: change(getattr(forms, w)) for w in when}))


def on_events(form: Form, table: str, change: Callable[[Insert], tuple[Insert, ...]]) -> Form:
    steps: list[Any] = []
    for step in form.steps:
        steps += change(step) if isinstance(step, Insert) and step.table == table else (step,)
    return with_steps(form, tuple(steps))


# ---- the fence


@mutant
def any_holder_may_write(patch: Patch) -> None:
    put_all(
        patch,
        BY_HOLDER,
        lambda f: without_guards(f, "lease_epoch", "current_lease_id", "attempt_index"),
    )


@mutant
def lease_id_not_compared(patch: Patch) -> None:
    put_all(patch, BY_HOLDER, lambda f: without_guards(f, "current_lease_id"))


@mutant
def late_results_taken(patch: Patch) -> None:
    def change(head: Update) -> Update:
        return Update(head.table, tuple(g for g in head.where if g != IN_TIME), head.set)

    put_all(patch, BY_HOLDER, lambda f: with_head(f, change))


@mutant
def a_lost_lease_keeps_the_time_used(patch: Patch) -> None:
    put(
        patch,
        expiry,
        "REVOKE",
        lambda f: with_set(f, attempt_timeout_remaining_ms=Until("attempt_timeout_at_ms")),
    )


@mutant
def a_timed_out_attempt_is_never_retried(patch: Patch) -> None:
    patch.setattr(time_limits, "delay_after", lambda *said: None)


@mutant
def expiry_ignored(patch: Patch) -> None:
    put_all(patch, BY_HOLDER, lambda f: without_guards(f, "lease_expires_at_ms"))


@mutant
def version_not_compared(patch: Patch) -> None:
    def unguarded(form: Form) -> Form:
        return without_guards(form, "version", "lease_epoch", "ownership_state")

    put(patch, expiry, "REVOKE", unguarded)
    put_ending(patch, operator_actions, "CANCEL", unguarded, "leased", "open")
    put_ending(patch, time_limits, "EXPIRE", unguarded, "leased")


@mutant
def repeated_terminal_call_refused(patch: Patch) -> None:
    patch.setattr(attempts, "closed_by", lambda *_: False)


@mutant
def terminal_repeat_open_to_every_lease(patch: Patch) -> None:
    def closed_by(snapshot: Any, handle: Any, outcome: str) -> bool:
        return snapshot.execution is not None and snapshot.execution.terminal_outcome == outcome

    patch.setattr(attempts, "closed_by", closed_by)


@mutant
def late_call_forgets_the_expiry(patch: Patch) -> None:
    put(patch, fence, "MARK_EXPIRED", lambda f: without_set(f, "expired_epoch"))
    put(patch, timers, "SWEEP_EXPIRED", lambda f: without_set(f, "expired_epoch"))


# ---- the epoch


@mutant
def epoch_not_raised_at_claim(patch: Patch) -> None:
    put(patch, claims, "CLAIM", lambda f: without_set(f, "lease_epoch"))


@mutant
def epoch_not_raised_at_reclaim(patch: Patch) -> None:
    put(patch, reclaim, "RECLAIM", lambda f: without_set(f, "lease_epoch"))


@mutant
def epoch_not_raised_at_revoke(patch: Patch) -> None:
    put(patch, expiry, "REVOKE", lambda f: without_set(f, "lease_epoch"))


@mutant
def epoch_not_raised_at_cancel(patch: Patch) -> None:
    put_ending(
        patch,
        operator_actions,
        "CANCEL",
        lambda f: without_set(f, "lease_epoch"),
        "leased",
        "open",
    )


@mutant
def epoch_not_raised_at_replay(patch: Patch) -> None:
    put(patch, replay, "REPLAY", lambda f: without_set(f, "lease_epoch"))


# ---- retries and limits


@mutant
def one_retry_too_many(patch: Patch) -> None:
    honest = retries.next_delay

    def next_delay(policy: Any, *rest: Any) -> int | None:
        return honest(msgspec.structs.replace(policy, max_retries=policy.max_retries + 1), *rest)

    patch.setattr(retries, "next_delay", next_delay)


@mutant
def backoff_ignored(patch: Patch) -> None:
    patch.setattr(retries, "backoff_ms", lambda *_: 0)


@mutant
def backoff_does_not_grow(patch: Patch) -> None:
    honest = retries.backoff_ms
    patch.setattr(retries, "backoff_ms", lambda backoff, _, roll: honest(backoff, 0, roll))


@mutant
def permanent_failure_retried(patch: Patch) -> None:
    patch.setattr(retries, "_FATAL", frozenset())


@mutant
def replay_resets_retry_count(patch: Patch) -> None:
    put(patch, replay, "REPLAY", lambda f: with_set(f, retry_count=0))


@mutant
def replay_limit_ignored(patch: Patch) -> None:
    put(patch, replay, "REPLAY", lambda f: without_set(f, "replay_count"))


@mutant
def reclaim_cap_ignored(patch: Patch) -> None:
    patch.setattr(expiry, "over_limit", lambda *_: False)


@mutant
def losses_not_counted(patch: Patch) -> None:
    put(patch, claims, "CLAIM", lambda f: without_set(f, "lease_reclaim_count"))


@mutant
def deadline_does_not_end(patch: Patch) -> None:
    honest = time_limits.expire

    def expire(snapshot: Any, phase: Any, *said: Any) -> Any:
        return Return(None) if phase == "execution_deadline" else honest(snapshot, phase, *said)

    patch.setattr(time_limits, "expire", expire)


@mutant
def attempt_clock_runs_on_while_delayed(patch: Patch) -> None:
    put(patch, attempts, "DELAY", lambda f: with_set(f, attempt_timeout_remaining_ms=None))


# ---- events and attempts


@mutant
def completion_event_doubled(patch: Patch) -> None:
    put(
        patch, attempts, "COMPLETE", lambda f: on_events(f, "ff_completion_event", lambda s: (s, s))
    )


@mutant
def completion_event_missing(patch: Patch) -> None:
    put(patch, attempts, "FAIL_FOR_GOOD", lambda f: without_steps(f, "ff_completion_event"))


@mutant
def renewal_not_told(patch: Patch) -> None:
    put(patch, renewal, "RENEW", lambda f: without_steps(f, "ff_lease_event"))


@mutant
def namespace_missing_on_failure_events(patch: Patch) -> None:
    def nameless(step: Insert) -> tuple[Insert, ...]:
        return (Insert(step.table, {**step.row, "namespace": None}),)

    put(patch, attempts, "FAIL_FOR_GOOD", lambda f: on_events(f, "ff_completion_event", nameless))


@mutant
def cancel_leaves_the_attempt_open(patch: Patch) -> None:
    put_ending(
        patch, operator_actions, "CANCEL", lambda f: without_steps(f, "ff_attempt"), "leased"
    )


@mutant
def reclaim_leaves_the_grant(patch: Patch) -> None:
    put(patch, reclaim, "RECLAIM", lambda f: without_steps(f, "ff_claim_grant"))


# ---- timers


@mutant
def expiry_sweep_does_not_look_at_the_time(patch: Patch) -> None:
    put(
        patch,
        timers,
        "SWEEP_EXPIRED",
        lambda f: picking(without_guards(f, "lease_expires_at_ms"), upto=None),
    )


@mutant
def promoter_does_not_look_at_the_time(patch: Patch) -> None:
    put(patch, timers, "SWEEP_DELAYED", lambda f: picking(f, upto=None))


@mutant
def requeue_ignores_the_grace(patch: Patch) -> None:
    honest = expiry.requeue
    patch.setattr(expiry, "requeue", lambda snapshot, _: honest(snapshot, 0))


@mutant
def requeue_ignores_the_reclaim_grant(patch: Patch) -> None:
    honest = expiry.requeue
    patch.setattr(
        expiry,
        "requeue",
        lambda snapshot, grace: honest(msgspec.structs.replace(snapshot, grant=None), grace),
    )


@mutant
def retention_forgets_too_early(patch: Patch) -> None:
    honest = Retention.trim_retention

    async def trim_retention(
        self: Retention, lane: str, retention_ms: int | None = None, **more: Any
    ) -> int:
        return await honest(self, lane, 0, **more)

    patch.setattr(Retention, "trim_retention", trim_retention)


@mutant
def failed_ones_are_forgotten_as_soon_as_others(patch: Patch) -> None:
    real = Retention._due

    async def due(engine: Retention, index: str, lane: str, upto: int, *said: Any) -> list[Any]:
        later = (
            engine._core.settings.retention_failed_ms - engine._core.settings.retention_completed_ms
        )
        return await real(engine, index, lane, upto + later if index == "failed" else upto, *said)

    patch.setattr(Retention, "_due", due)


@mutant
def own_retention_ignored(patch: Patch) -> None:
    real = Retention._due

    async def due(engine: Retention, index: str, *said: Any) -> list[Any]:
        return [] if index == "retained" else await real(engine, index, *said)

    patch.setattr(Retention, "_due", due)


# ---- who gets what


@mutant
def paused_lane_hands_out_work(patch: Patch) -> None:
    put(patch, claims, "CLAIM", lambda f: not_asking(f, Absent))


@mutant
def closed_lane_takes_work(patch: Patch) -> None:
    put(
        patch,
        create,
        "CREATE_READY",
        lambda f: with_head(f, lambda head: Insert(head.table, head.row)),
    )


@mutant
def capabilities_ignored(patch: Patch) -> None:
    put(patch, claims, "CLAIM", lambda f: not_asking(f, Covered))


@mutant
def reservation_ignored(patch: Patch) -> None:
    put(patch, claims, "CLAIM", lambda f: not_asking(f, AnyOf))


@mutant
def grant_of_another_worker_accepted(patch: Patch) -> None:
    patch.setattr(claims, "_grant_for", lambda *_: None)


@mutant
def priority_order_reversed(patch: Patch) -> None:
    patch.setitem(INDEXES, "ready", msgspec.structs.replace(INDEXES["ready"], descending=()))


@mutant
def claims_ignore_the_namespace(patch: Patch) -> None:
    patch.setitem(
        INDEXES, "ready", msgspec.structs.replace(INDEXES["ready"], group=("lane_id", "gate"))
    )


@mutant
def the_first_namespace_has_every_turn(patch: Patch) -> None:
    honest = NamespaceRotation.namespaces

    def namespaces(self: NamespaceRotation, lane: str, *most: int) -> Any:
        self._last.clear()
        return honest(self, lane, *most)

    patch.setattr(NamespaceRotation, "namespaces", namespaces)


@mutant
def another_namespaces_work_is_let_go(patch: Patch) -> None:
    honest = routing.claimable
    patch.setattr(
        routing,
        "claimable",
        lambda waiting, lane, of, offered: honest(waiting, lane, None, offered),
    )


@mutant
def priority_not_clamped(patch: Patch) -> None:
    for module in (create, operator_actions):
        patch.setattr(module, "clamp_priority", lambda priority: priority)


@mutant
def idempotency_key_not_taken(patch: Patch) -> None:
    honest = create.create

    def without_key(*args: Any) -> create.Creation:
        made = honest(*args)
        values = dict(zip(made.plan.form.args, made.plan.values, strict=True))
        form = create.WITHOUT_KEY.get(made.plan.form, made.plan.form)
        return msgspec.structs.replace(made, plan=form.given(values))

    patch.setattr(create, "create", without_key)


@mutant
def block_forgets_its_reason(patch: Patch) -> None:
    for reason, form in grants.BLOCK.items():
        patch.setitem(grants.BLOCK, reason, with_set(form, eligibility_state="blocked_by_route"))


@mutant
def any_worker_releases_a_route(patch: Patch) -> None:
    patch.setattr(registry, "covers", lambda *_: True)


@mutant
def whatever_is_passed_over_is_parked(patch: Patch) -> None:
    patch.setattr(routing, "uncovered", lambda heads, *_: list(heads))


@mutant
def who_asks_does_not_count_as_there(patch: Patch) -> None:
    honest = routing.uncovered
    patch.setattr(routing, "uncovered", lambda waiting, live, asking: honest(waiting, live))


@mutant
def nothing_is_ever_parked(patch: Patch) -> None:
    patch.setattr(routing, "uncovered", lambda *_: [])


@mutant
def parked_work_hides_from_who_never_registered(patch: Patch) -> None:
    patch.setattr(routing, "claimable", lambda *_: [])


@mutant
def a_registration_frees_what_it_cannot_run(patch: Patch) -> None:
    patch.setattr(routing, "covered_by", lambda waiting, *_: list(waiting))


@mutant
def silent_worker_heard_again(patch: Patch) -> None:
    honest = registry.heartbeat

    def heartbeat(stored: Any, now: int) -> Any:
        alive = None if stored is None else msgspec.structs.replace(stored, expires_at_ms=now + 1)
        return honest(alive, now)

    patch.setattr(registry, "heartbeat", heartbeat)
    put(patch, registry, "HEARTBEAT", lambda f: without_guards(f, "expires_at_ms"))
