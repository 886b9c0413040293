"""Regressions found by the model tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from flowfabric.errors import EngineError
from flowfabric.model.lease import ReclaimCapExceeded
from flowfabric.model.waitpoint import Condition, Single, Suspended

from . import ops
from . import suspend_ops as sops
from .bench import Bench
from .flow_machine import FlowMachine, flow_machine_on
from .machine import GPU, IDENTS
from .shapes import NO_POLICY, Held, Policy
from .suspend_shapes import Asked, Sent
from .suspend_spec import Suspends

IDENT = IDENTS[0]


@pytest.fixture(params=("memory", "sqlite-memory", "postgres", "valkey"))
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


@pytest.fixture(params=("memory", "sqlite-memory", "postgres", "valkey"))
def waits(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param, Suspends)
    made.do(sops.seed("k1", "2a" * 32))
    yield made
    made.close()


def leased(bench: Bench, policy: Policy = NO_POLICY) -> Held:
    """An execution leased to ann for a second."""
    bench.do(ops.create(IDENT, "one", "a", 0, "", policy, None))
    bench.do(ops.claim("one", GPU, "ann", 1_000, of="a"))
    return bench.handles[-1]


def test_resuming_a_leased_execution_is_not_leaseable(bench: Bench) -> None:
    """Only a suspended execution has its own answer; every other phase that is not runnable has
    this one.
    """
    leased(bench)
    answer = bench.do(ops.claim_resumed(IDENT, "bob", 1_000))
    assert isinstance(answer, EngineError) and answer.code == "execution_not_leaseable"


@pytest.mark.parametrize("granted", ["ann", "bob"])
def test_grant_that_ran_out_does_not_stand_in_the_way_of_resuming(
    bench: Bench, granted: str
) -> None:
    leased(bench)
    bench.do(ops.revoke(IDENT))
    bench.do(ops.issue_claim_grant(IDENT, granted, GPU, 100))
    bench.to(bench.clock() + 101)
    bench.do(ops.claim_resumed(IDENT, "bob", 1_000))
    assert bench.spec.execs[IDENT].state == "RUNNING"


def test_own_reclaim_grant_does_not_stand_in_the_way_of_resuming(bench: Bench) -> None:
    leased(bench)
    bench.do(ops.revoke(IDENT))
    bench.do(ops.issue_reclaim_grant(IDENT, "bob", GPU, 100))
    bench.do(ops.claim_resumed(IDENT, "bob", 1_000))
    assert bench.spec.execs[IDENT].state == "RUNNING"


@pytest.mark.parametrize("marked", [False, True])
def test_late_call_is_lease_expired_after_a_resumption(bench: Bench, marked: bool) -> None:
    """The answer to the old holder does not depend on a mark of the expiry before the takeover."""
    old = leased(bench)
    bench.to(bench.clock() + 1_000)
    if marked:
        bench.do(ops.mark(IDENT))
    bench.do(ops.resume(IDENT, "bob", 1_000, bench.clock()))
    answer = bench.do(ops.complete(old))
    assert isinstance(answer, EngineError) and answer.code == "lease_expired"
    bench.do(ops.complete(bench.handles[-1]))


@pytest.mark.parametrize("marked", [False, True])
def test_resuming_counts_against_the_cap_on_losses(bench: Bench, marked: bool) -> None:
    """With a limit of 0 the first loss is fatal for every kind of takeover."""
    leased(bench, Policy(losses=0))
    bench.to(bench.clock() + 1_000)
    if marked:
        bench.do(ops.mark(IDENT))
    assert bench.do(ops.resume(IDENT, "bob", 1_000, bench.clock())) is None
    assert bench.spec.execs[IDENT].outcome == "failed"


@pytest.mark.parametrize("outside", ["cancel", "expire"])
def test_mark_of_an_expired_lease_may_lose_a_race(bench: Bench, outside: str) -> None:
    """The late holder is refused either way; the end in between is final and has one event."""
    old = leased(bench, Policy(deadline=1_000))
    bench.to(bench.clock() + 1_000)
    other = (
        ops.cancel(IDENT, "operator_override")
        if outside == "cancel"
        else ops.expire(IDENT, "execution_deadline")
    )
    bench.race(ops.renew(old), other)
    assert bench.spec.execs[IDENT].state == "ENDED"


def test_limit_of_a_reclaim_is_the_same_after_a_race(bench: Bench) -> None:
    """Without a limit in the policy the call's limit counts, also in the copied specification of a
    race.
    """
    leased(bench)
    bench.race(ops.revoke(IDENTS[1]), ops.change_priority(IDENTS[1], 3))
    bench.to(bench.clock() + 1_000)
    bench.do(ops.issue_reclaim_grant(IDENT, "bob", GPU, 100))
    assert isinstance(bench.do(ops.reclaim(IDENT, "bob", 1_000, 0)), ReclaimCapExceeded)


def test_end_beside_a_claim_is_refused_by_the_state_after_the_claim(bench: Bench) -> None:
    """The claim takes the execution that the late caller had delayed."""
    old = leased(bench)
    bench.do(ops.delay(old, bench.clock()))
    bench.do(ops.promote(IDENT))
    refused, works = bench.do(ops.complete_and_claim(((old, b""),), "one", GPU, "ann", 400, of="a"))
    assert (refused.code, works[0].execution_id) == ("lease_conflict", IDENT)


def test_a_revocation_between_a_claim_and_the_reason_of_the_refused_end(
    bench: Bench,
) -> None:
    """An expired lease was revoked after the claim and before the read of the reason."""
    old = leased(bench)
    bench.to(bench.clock() + 1_000)
    bench.race(
        ops.complete_and_claim(((old, b""),), "one", GPU, "ann", 400, of="a"), ops.revoke(IDENT)
    )


@pytest.mark.parametrize("how", ["requeued", "ended"])
def test_late_call_is_lease_expired_without_a_takeover(bench: Bench, how: str) -> None:
    """A requeue and an end for too many losses do not raise the epoch; the lease still expired."""
    old = leased(bench, Policy(losses=0 if how == "ended" else 1))
    bench.to(bench.clock() + 1_000)
    bench.do(ops.mark(IDENT))
    bench.do(ops.requeue(IDENT, 0))
    answer = bench.do(ops.complete(old))
    assert isinstance(answer, EngineError) and answer.code == "lease_expired"


def test_held_lane_grants_nothing(bench: Bench) -> None:
    """No grant, no resumption and no reclaim until it is active again."""
    leased(bench)
    bench.to(bench.clock() + 1_000)
    bench.do(ops.issue_reclaim_grant(IDENT, "bob", GPU, 500))
    bench.do(ops.lane("one", "paused"))
    bench.do(ops.reclaim(IDENT, "bob", 1_000))
    assert bench.do(ops.resume(IDENT, "bob", 1_000, bench.clock())) is None
    bench.do(ops.lane("one", "active"))
    bench.do(ops.reclaim(IDENT, "bob", 1_000))
    assert bench.spec.execs[IDENT].state == "RUNNING"


BOX, SIGNAL = UUID(int=1), Sent(UUID(int=2))


def asked(until: Condition = Single("a"), **said: Any) -> Asked:  # noqa: B008
    return Asked(UUID(int=3), until, **{"fresh": ((BOX, "a"),), **said})


@pytest.mark.parametrize("closes_first", [False, True])
def test_signal_to_a_closed_waitpoint_ends_no_wait(waits: Bench, closes_first: bool) -> None:
    """A signal that read it while open reads it again."""
    waits.do(sops.suspend(leased(waits), asked()))
    assert isinstance(waits.spec, Suspends)
    signal = sops.deliver(IDENT, BOX, waits.spec.boxes[BOX].token, SIGNAL)
    close = sops.close_waitpoint(IDENT, BOX)
    waits.race(*(close, signal) if closes_first else (signal, close))


@pytest.mark.parametrize("early", [False, True])
def test_concurrent_suspends_under_one_key_have_one_answer(waits: Bench, early: bool) -> None:
    """Under one key, whether it suspends or finds the condition satisfied."""
    held = leased(waits)
    said: dict[str, Any] = {}
    if early:
        made = waits.do(sops.create_waitpoint(held, "a", 1_000))
        waits.do(sops.deliver(IDENT, made.waitpoint_id, made.hmac_token, SIGNAL))
        said = {"fresh": (), "ahead": made.waitpoint_id}
    suspend = sops.suspend(held, asked(once="once", **said))
    waits.race(suspend, suspend)
    assert isinstance(waits.do(suspend), Suspended) != early


@pytest.fixture(params=("memory", "sqlite-memory", "postgres", "valkey"))
def quorum(request: pytest.FixtureRequest) -> Iterator[FlowMachine]:
    machine = flow_machine_on(request.param)()
    machine.start(kind="quorum")
    yield machine
    machine.teardown()


def test_killed_cascade_skips_nothing_beyond_the_group_that_fired(quorum: FlowMachine) -> None:
    """Dependents of the skipped execution wait for the repair."""
    quorum.crash(ends=[(2, "next"), (1, "cancel")], how="unheard")
    quorum.crash(ends=[(0, "cancel")], how="halfway")


def test_killed_call_does_not_claim_what_its_end_released(quorum: FlowMachine) -> None:
    quorum.crash(ends=[(2, "good"), (1, "next"), (1, "next"), (0, "bad")], how="halfway")
