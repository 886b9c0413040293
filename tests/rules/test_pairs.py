"""Two callers of one execution, with their loads and commits in every order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution
from flowfabric.model.lease import Grant
from flowfabric.plan import Applied, Plan, Refused
from flowfabric.rules.decision import DECIDE_AGAIN, Commit, Decision, Reject, Return
from flowfabric.rules.states import is_ended, name_of, vector_of
from flowfabric.store.memory import MemoryStore

from .factory import (
    NOW,
    attempt,
    commit,
    execution,
    fence,
    found,
    grant,
    handle,
    load,
    run,
    seeded,
    stored,
)
from .operations import HOLDERS, RULES, SWEEPS, Shown, why

_DUE: dict[str, Any] = {"deadline_at_ms": NOW, "attempt_timeout_at_ms": NOW}
STARTS: dict[str, tuple[Execution, Grant | None]] = {
    "ready": (execution(deadline_at_ms=NOW), grant()),
    "interrupted": (
        execution(
            "READY", "attempt_interrupted", interrupt_cause="lease_revoked", deadline_at_ms=NOW
        ),
        None,
    ),
    "retry": (
        execution("DELAYED", "pending_retry_attempt", reason="waiting_for_retry_backoff"),
        None,
    ),
    "replay": (execution("READY", "pending_replay_attempt"), grant()),
    "blocked": (execution("BUDGET"), None),
    "running": (execution("RUNNING", deadline_at_ms=NOW, attempt_timeout_at_ms=NOW + 500), None),
    "out of time": (execution("RUNNING", **_DUE), None),
    "ran out": (execution("RUNNING", **{**_DUE, "lease_expires_at_ms": NOW}), None),
    "lost": (execution("LOST", deadline_at_ms=NOW), grant("reclaim")),
    "lost, old grant": (execution("LOST"), grant("reclaim", expires_in=-1)),
    "lost once too often": (execution("LOST", max_reclaim_count=0), None),
    "suspended": (execution("SUSPENDED", deadline_at_ms=NOW), None),
    "dependent": (execution("DEPS", deadline_at_ms=NOW), None),
    "ended": (execution("ENDED", outcome="failed"), None),
    "skipped": (execution("ENDED", outcome="skipped"), None),
}
ALIKE = (
    "replay_by_request",
    "block_route",
    "expire_attempt",
    "time_out_cancelled",
    "time_out_expired",
)  # each takes the path of another in the list
OPERATIONS = tuple(name for name in (*RULES, *HOLDERS, *SWEEPS) if name not in ALIKE)
EVENTS = ("ff_lease_event", "ff_completion_event", "ff_operator_event")


class Watch:
    """Compares the row before and after each commit, and counts endings per generation."""

    def __init__(self, store: MemoryStore, where: str) -> None:
        self.store, self.where = store, where
        self.row = found(store)
        self.endings: Counter[int] = Counter()
        self.events = 0

    def look(self) -> None:
        before, after = self.row, found(self.store)
        self.row = after
        if after is None:
            assert before is None or is_ended(before), f"{self.where}: deleted while alive"
            assert not any(
                run(self.store.dump((*EVENTS, "ff_attempt", "ff_claim_grant"))).values()
            ), f"{self.where}: rows left behind"
            return
        assert before is not None, f"{self.where}: came back after it was deleted"
        seen = vector_of(after)
        assert name_of(seen) is not None, f"{self.where}: {seen}"
        assert seen.public_state == after.public_state, self.where
        assert after.lease_epoch >= before.lease_epoch, f"{self.where}: the epoch went back"
        assert after.version >= before.version, f"{self.where}: the version went back"
        self._count(before, after)

    def _count(self, before: Execution, after: Execution) -> None:
        total = run(self.store.last_event("ff_completion_event"))
        ended = is_ended(after) and not is_ended(before)
        assert total - self.events == ended, (
            f"{self.where}: {total - self.events} completion events for one step"
        )
        self.events = total
        self.endings[after.replay_count] += ended
        assert self.endings[after.replay_count] <= 1, f"{self.where}: ended twice in one generation"
        if is_ended(before) and is_ended(after):
            same = (
                "terminal_outcome",
                "result",
                "terminal_at_ms",
                "failure_reason",
                "closing_epoch",
                "replay_count",
            )
            assert all(getattr(before, c) == getattr(after, c) for c in same), (
                f"{self.where}: changed after its end"
            )

    def finish(self) -> None:
        if self.row is None:
            return
        tries = sorted(
            (Attempt(*row) for row in run(self.store.dump(("ff_attempt",)))["ff_attempt"]),
            key=lambda t: t.attempt_index,
        )
        assert [t.attempt_index for t in tries] == list(range(self.row.total_attempt_count)), (
            f"{self.where}: attempts have gaps"
        )
        assert sum(t.attempt_state in ("created", "started", "suspended") for t in tries) <= 1, (
            f"{self.where}: two open attempts"
        )


class Caller:
    """One operation, driven one step at a time as the engine does."""

    def __init__(self, name: str, store: MemoryStore, shown: Shown, watch: Watch) -> None:
        self.name, self.store, self.shown, self.watch = name, store, shown, watch
        self.decision: Decision | None = None

    def load(self) -> None:
        if self.name in RULES:
            self.decision = RULES[self.name].decide(load(self.store), self.shown)

    def commit(self) -> None:
        """Runs to the end. A refused commit is decided again, without interference."""
        if self.name in SWEEPS:
            run(self.store.sweep(SWEEPS[self.name].plan, 10))
            self.watch.look()
        elif self.name in HOLDERS:
            self._hold()
        else:
            self._decide()

    def _hold(self) -> None:
        op = HOLDERS[self.name]
        before = self.watch.row
        if self._try(op.plan(self.shown.handle)):
            current = before is not None and (before.lease_epoch, before.current_lease_id)
            assert current == (self.shown.handle.lease_epoch, self.shown.handle.lease_id), (
                f"{self.watch.where}: written under an old lease"
            )
            return
        reason = why(op, load(self.store, self.shown.handle.attempt_index), self.shown)
        assert reason is not None, f"{self.watch.where}: {self.name} refused without a reason"
        self._settle(reason, op.declared)

    def _decide(self) -> None:
        op = RULES[self.name]
        for _ in range(4):
            if not isinstance(self.decision, Commit):
                assert self.decision is not None
                self._settle(self.decision, op.declared)
                return
            if self._try(self.decision.plan) and self.decision.result is not DECIDE_AGAIN:
                return
            self.load()
        raise AssertionError(f"{self.watch.where}: {self.name} never came to an end")

    def _settle(self, decision: Decision, declared: frozenset[str]) -> None:
        if isinstance(decision, Reject):
            assert decision.error.code in declared, (
                f"{self.watch.where}: {self.name} raised {decision.error.code}"
            )
            if decision.mark is not None:
                self._try(decision.mark)
        else:
            assert isinstance(decision, Return), self.watch.where

    def _try(self, plan: Plan) -> bool:
        applied = isinstance(commit(self.store, plan), Applied)
        if applied:
            self.watch.look()
        return applied


def start(state: str) -> tuple[MemoryStore, Shown]:
    row, granted = STARTS[state]
    return seeded(row, attempt(row), granted), Shown(handle(row), fence(row))


def acts(state: str, name: str) -> bool:
    """Whether the operation, decided in this state, changes anything."""
    store, shown = start(state)
    if name in SWEEPS:
        return bool(run(store.sweep(SWEEPS[name].plan, 10)))
    if name in HOLDERS:
        return isinstance(commit(store, HOLDERS[name].plan(shown.handle)), Applied)
    decision = RULES[name].decide(load(store), shown)
    return isinstance(decision, Commit) or (
        isinstance(decision, Reject) and decision.mark is not None
    )


ACTS = {(state, name) for state in STARTS for name in OPERATIONS if acts(state, name)}
FIRST = [(state, name) for state in STARTS for name in OPERATIONS if (state, name) in ACTS]
ORDERS = (
    "load 1, commit 1, load 2, commit 2",
    "load 1, load 2, commit 1, commit 2",
    "load 1, load 2, commit 2, commit 1",
)


def test_every_operation_acts_somewhere() -> None:
    assert {name for _, name in FIRST} == set(OPERATIONS)


@pytest.mark.parametrize(("state", "first"), FIRST)
def test_two_callers_in_every_order(state: str, first: str) -> None:
    """A second caller that would be idle in this state runs only after the first."""
    for second in OPERATIONS:
        for order in ORDERS if (state, second) in ACTS else ORDERS[:1]:
            store, shown = start(state)
            watch = Watch(store, f"{state}: {first} and {second}, {order}")
            callers = {
                "1": Caller(first, store, shown, watch),
                "2": Caller(second, store, shown, watch),
            }
            for step in order.split(", "):
                verb, who = step.split(" ")
                getattr(callers[who], verb)()
            watch.finish()


PLANNED = [(state, name) for state, name in FIRST if name not in SWEEPS]


@pytest.mark.parametrize(("state", "name"), PLANNED)
def test_a_plan_sent_twice_is_applied_once(state: str, name: str) -> None:
    store, shown = start(state)
    if name in HOLDERS:
        plan, repeatable = HOLDERS[name].plan(shown.handle), HOLDERS[name].repeatable
    else:
        decision = RULES[name].decide(load(store), shown)
        found = (
            decision.plan
            if isinstance(decision, Commit)
            else decision.mark
            if isinstance(decision, Reject)
            else None
        )
        assert found is not None
        plan, repeatable = found, name == "renew_lease" and isinstance(decision, Commit)
    assert isinstance(commit(store, plan), Applied)
    after = stored(store) if name != "trim" else None
    again = commit(store, plan)
    assert isinstance(again, Applied if repeatable else Refused)
    if after is not None:
        assert stored(store) == after


@pytest.mark.parametrize("name", HOLDERS)
def test_a_lease_that_expires_between_load_and_commit_writes_nothing(name: str) -> None:
    row = execution("RUNNING", lease_expires_at_ms=NOW)
    store = seeded(row, attempt(row))
    assert isinstance(commit(store, HOLDERS[name].plan(handle(row))), Refused)
    assert stored(store) == row
