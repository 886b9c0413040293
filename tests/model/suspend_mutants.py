"""Planted bugs of suspension, for the machine of suspension to notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from flowfabric.codec import token as tokens
from flowfabric.engine.waits import suspend as suspending
from flowfabric.engine.waits.signals import Signals
from flowfabric.engine.waits.suspend_replay import SuspendReplays
from flowfabric.model.waitpoint import AllOf, UsePending
from flowfabric.plan import Form, Update, UpdateMany
from flowfabric.rules.decision import Commit
from flowfabric.rules.executions import operator_actions, time_limits
from flowfabric.rules.waits import (
    conditions,
    signal_forms,
    signals,
    signing_keys,
    suspend,
    suspend_forms,
    suspension_timeouts,
    waitpoints,
)

from .mutants import (
    Patch,
    Plant,
    put,
    put_ending,
    with_set,
    with_steps,
    without_guards,
    without_set,
    without_steps,
)

SUSPEND_MUTANTS: dict[str, Plant] = {}
EXEC, WAITPOINT, SUSPENSION, SIGNAL = (
    "ff_exec_core",
    "ff_waitpoint_pending",
    "ff_suspension_current",
    "ff_signal",
)


def mutant(plant: Plant) -> Plant:
    SUSPEND_MUTANTS[plant.__name__] = plant
    return plant


def put_pair(patch: Patch, name: str, change: Callable[[Form], Form]) -> None:
    """The form of a signal without a key, and that of one with a key."""
    pair = getattr(signal_forms, name)
    patch.setattr(signal_forms, name, tuple(change(form) for form in pair))


def not_asking(form: Form, table: str, *columns: str) -> Form:
    def change(step: Any) -> Any:
        if not isinstance(step, Update) or step.table != table:
            return step
        return Update(
            step.table,
            tuple(g for g in step.where if getattr(g, "column", None) not in columns),
            step.set,
        )

    return with_steps(form, tuple(change(step) for step in form.steps))


def not_writing(form: Form, table: str, *columns: str) -> Form:
    def change(step: Any) -> Any:
        if not isinstance(step, UpdateMany) or step.table != table:
            return step
        return UpdateMany(
            step.table, step.where, {c: v for c, v in step.set.items() if c not in columns}
        )

    return with_steps(form, tuple(change(step) for step in form.steps))


# ---- going on


@mutant
def signal_leaves_the_other_waitpoints_open(patch: Patch) -> None:
    put_pair(patch, "RESUME_BY_SIGNAL", lambda f: with_steps(f, (*f.steps[:3], *f.steps[4:])))


@mutant
def operator_leaves_the_waitpoints_open(patch: Patch) -> None:
    put(patch, signal_forms, "RESUME", lambda f: without_steps(f, WAITPOINT))


@mutant
def operator_leaves_the_suspension_open(patch: Patch) -> None:
    put(patch, signal_forms, "RESUME", lambda f: without_steps(f, SUSPENSION))


@mutant
def going_on_starts_a_new_attempt(patch: Patch) -> None:
    put_pair(patch, "RESUME_BY_SIGNAL", lambda f: with_set(f, current_attempt_id=None))


@mutant
def resume_delay_ignored(patch: Patch) -> None:
    honest = signals.awake
    patch.setattr(signals, "awake", lambda delay, *rest: honest(0, *rest))


@mutant
def going_on_is_not_told(patch: Patch) -> None:
    put_pair(patch, "RESUME_BY_SIGNAL", lambda f: without_steps(f, "ff_completion_event"))


# ---- suspending


@mutant
def epoch_not_raised_at_suspend(patch: Patch) -> None:
    put(patch, suspend_forms, "SUSPEND", lambda f: without_set(f, "lease_epoch"))


@mutant
def any_holder_may_suspend(patch: Patch) -> None:
    patch.setattr(suspending, "check_handle", lambda *_: None)
    put(
        patch,
        suspend_forms,
        "SUSPEND",
        lambda f: without_guards(f, "lease_epoch", "current_lease_id", "attempt_index"),
    )


@mutant
def expired_holder_may_suspend(patch: Patch) -> None:
    patch.setattr(suspending, "check_handle", lambda *_: None)
    put(patch, suspend_forms, "SUSPEND", lambda f: without_guards(f, "lease_expires_at_ms"))


@mutant
def attempt_clock_runs_on_while_suspended(patch: Patch) -> None:
    put(patch, suspend_forms, "SUSPEND", lambda f: with_set(f, attempt_timeout_remaining_ms=None))


@mutant
def suspend_is_not_known_by_its_key(patch: Patch) -> None:
    async def find(*_: Any) -> None:
        return None

    patch.setattr(SuspendReplays, "find", find)


@mutant
def early_signals_ignored(patch: Patch) -> None:
    patch.setattr(suspend, "replay", lambda *_: suspend.ConditionState())


@mutant
def early_signals_belong_to_nobody(patch: Patch) -> None:
    put(patch, waitpoints, "TAG_SIGNALS", lambda f: without_steps(f, SIGNAL))


def _pending(patch: Patch, change: Callable[[Any, int, Any], tuple[Any, int]]) -> None:
    honest = suspend._check_pending

    def check(stored: Any, now: int, fields: Any, args: Any) -> Any:
        return honest(
            *(change(stored, now, fields) if stored is not None else (stored, now)), fields, args
        )

    patch.setattr(suspend, "_check_pending", check)


@mutant
def outdated_waitpoint_serves(patch: Patch) -> None:
    _pending(patch, lambda stored, now, fields: (stored, 0))


@mutant
def waitpoint_of_an_earlier_attempt_is_refused(patch: Patch) -> None:
    def change(stored: Any, now: int, fields: Any) -> tuple[Any, int]:
        later = fields.attempt_index + (stored.attempt_index != fields.attempt_index)
        return structs.replace(stored, attempt_index=later), now

    _pending(patch, change)


@mutant
def waitpoint_in_use_is_taken(patch: Patch) -> None:
    honest = suspend.check_stored

    def check_stored(around: Any, fields: Any, args: Any) -> Any:
        closed = {
            name: structs.replace(w, state="closed") if w.state == "pending" else w
            for name, w in around.waitpoints.items()
        }
        ahead = isinstance(args.waitpoints[0], UsePending)
        return honest(around if ahead else structs.replace(around, waitpoints=closed), fields, args)

    patch.setattr(suspend, "check_stored", check_stored)


# ---- signals


@mutant
def source_counts_twice(patch: Patch) -> None:
    honest = conditions._token

    def token(path: str, node: Any, signal: Any) -> str:
        made = honest(path, node, signal)
        return f"{made}:{signal.signal_id}" if "#src:" in made else made

    patch.setattr(conditions, "_token", token)


@mutant
def any_name_counts(patch: Patch) -> None:
    patch.setattr(conditions, "_accepts", lambda *_: True)


@mutant
def one_of_all_is_enough(patch: Patch) -> None:
    honest = conditions.is_met

    def is_met(condition: Any, satisfied: Any, path: str = "") -> bool:
        return (
            bool(satisfied) if isinstance(condition, AllOf) else honest(condition, satisfied, path)
        )

    patch.setattr(conditions, "is_met", is_met)


@mutant
def closed_waitpoint_takes_signals(patch: Patch) -> None:
    honest = signals._closed

    def closed(around: Any, *, pending: bool) -> Any:
        open_anyway = around.execution.lifecycle_phase == "suspended" and not pending
        return None if open_anyway else honest(around, pending=pending)

    patch.setattr(signals, "_closed", closed)


@mutant
def outdated_waitpoint_takes_signals(patch: Patch) -> None:
    honest = signals._closed
    patch.setattr(
        signals,
        "_closed",
        lambda around, *, pending: None if pending else honest(around, pending=pending),
    )


@mutant
def signal_key_ignored(patch: Patch) -> None:
    honest = signals.deliver
    patch.setattr(
        signals,
        "deliver",
        lambda around, args: honest(structs.replace(around, duplicate_of=None), args),
    )


@mutant
def signals_do_not_mind_each_other(patch: Patch) -> None:
    for name in ("APPEND", "APPEND_MATCHED", "RESUME_BY_SIGNAL"):
        put_pair(patch, name, lambda f: not_asking(f, EXEC, "version"))


@mutant
def early_signal_does_not_mind_the_suspend(patch: Patch) -> None:
    put_pair(patch, "BUFFER", lambda f: not_asking(f, WAITPOINT, "version"))


@mutant
def signal_does_not_mind_the_close(patch: Patch) -> None:
    honest = waitpoints.close

    def close(*said: Any) -> Any:
        decided = honest(*said)
        return structs.replace(decided, first=()) if isinstance(decided, Commit) else decided

    patch.setattr(waitpoints, "close", close)


@mutant
def signal_is_not_kept(patch: Patch) -> None:
    put_pair(patch, "APPEND", lambda f: without_steps(f, SIGNAL))


@mutant
def satisfiers_are_forgotten(patch: Patch) -> None:
    put_pair(patch, "APPEND_MATCHED", lambda f: not_writing(f, SUSPENSION, "satisfier_signal_ids"))


# ---- tokens


@mutant
def retired_key_is_good_for_ever(patch: Patch) -> None:
    honest = tokens.verify
    patch.setattr(tokens, "verify", lambda *said: honest(*said[:5], 1, *said[6:]))


@mutant
def token_of_another_waitpoint_is_good(patch: Patch) -> None:
    def verify(
        token: str,
        execution: Any,
        waitpoint: Any,
        stored: Any,
        known: Any,
        now: int,
        asked: Any = (),
    ) -> str:
        if not token or ":" not in token or stored is None:
            raise tokens._refused("invalid_token" if token else "missing_token")
        return ""

    patch.setattr(tokens, "verify", verify)


@mutant
def rotation_without_grace(patch: Patch) -> None:
    honest = signing_keys.rotate
    patch.setattr(
        signing_keys,
        "rotate",
        lambda known, kid, secret, grace, now: honest(known, kid, secret, 0, now),
    )


# ---- other ends


def _hurry(patch: Patch, change: Callable[[Any, Any, int], tuple[Any, Any, int]]) -> None:
    honest = suspension_timeouts.expire

    def expire(execution: Any, suspension: Any, now: int, signal: Any) -> Any:
        return (
            honest(*change(execution, suspension, now), signal)
            if suspension
            else honest(execution, None, now, signal)
        )

    patch.setattr(suspension_timeouts, "expire", expire)


@mutant
def timeout_does_not_look_at_the_time(patch: Patch) -> None:
    _hurry(
        patch,
        lambda execution, suspension, now: (
            execution,
            structs.replace(suspension, timeout_at_ms=1),
            now,
        ),
    )


@mutant
def timeout_of_what_has_gone_on(patch: Patch) -> None:
    def change(execution: Any, suspension: Any, now: int) -> tuple[Any, Any, int]:
        waiting = structs.replace(execution, lifecycle_phase="suspended")
        return waiting, structs.replace(suspension, closed_at_ms=None), now

    _hurry(patch, change)
    for name in ("TIMEOUT_FAIL", "TIMEOUT_RESUME", "TIMEOUT_ESCALATE"):
        put(patch, suspension_timeouts, name, lambda f: without_guards(f, "lifecycle_phase"))


@mutant
def timeout_resumes_without_a_signal(patch: Patch) -> None:
    put(patch, suspension_timeouts, "TIMEOUT_RESUME", lambda f: without_steps(f, SIGNAL))


@mutant
def escalation_keeps_its_timeout(patch: Patch) -> None:
    put(patch, suspension_timeouts, "TIMEOUT_ESCALATE", lambda f: without_steps(f, SUSPENSION))


@mutant
def timeout_leaves_the_attempt_open(patch: Patch) -> None:
    put(patch, suspension_timeouts, "TIMEOUT_FAIL", lambda f: without_steps(f, "ff_attempt"))


@mutant
def cancel_leaves_the_suspension_open(patch: Patch) -> None:
    put_ending(patch, operator_actions, "CANCEL", lambda f: without_steps(f, SUSPENSION), "open")


@mutant
def cancel_leaves_the_waitpoints_open(patch: Patch) -> None:
    put_ending(patch, operator_actions, "CANCEL", lambda f: without_steps(f, WAITPOINT), "open")


@mutant
def deadline_leaves_the_waitpoints_open(patch: Patch) -> None:
    put_ending(patch, time_limits, "EXPIRE", lambda f: without_steps(f, WAITPOINT), "open")


@mutant
def unused_waitpoints_stay(patch: Patch) -> None:
    async def expire_waitpoints(*_: Any) -> int:
        return 0

    patch.setattr(Signals, "expire_waitpoints", expire_waitpoints)
