"""An engine that writes no lease events does everything else as usual."""

from __future__ import annotations

import pytest

from flowfabric import Settings
from flowfabric.engine.engine import Engine
from flowfabric.engine.omitted_events import without
from flowfabric.errors import StateKind, ValidationError
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS
from flowfabric.rules.claims.claims import CLAIM
from flowfabric.rules.executions.create import CREATE_READY
from flowfabric.rules.leases.attempts import COMPLETE
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

from .helpers import claim, create, refused, requeued, running, state, told, worker


def silent(engine: Engine) -> Engine:
    return Engine(engine.store, Settings(lease_events="off"))


async def events(engine: Engine, channel: str) -> int:
    return len((await engine.store.dump([channel]))[channel])


async def test_a_whole_execution_writes_its_attempt_and_its_end(
    engine: Engine, clock: ManualClock
) -> None:
    quiet = silent(engine)
    ident, handle = await running(quiet, worker(ttl_ms=1_000))
    clock.advance(500)
    await quiet.renew(handle)
    await quiet.complete(handle, b"ok")
    assert await state(quiet, ident) == "ENDED(success)"
    assert await events(quiet, LEASE_EVENTS) == 0
    assert await events(quiet, COMPLETION_EVENTS) == 1
    assert check(snapshot_of(await quiet.store.dump(TABLES_READ))) == []


async def test_a_lost_lease_is_reclaimed_and_fenced(engine: Engine, clock: ManualClock) -> None:
    quiet = silent(engine)
    ident, late = await requeued(quiet, clock)
    handle = await claim(quiet)
    await refused(quiet.complete(late, b"too late"), StateKind.LEASE_EXPIRED)
    await quiet.complete(handle, b"ok")
    assert await state(quiet, ident) == "ENDED(success)"
    assert (await told(quiet, ident))["LEASE"] == []
    assert check(snapshot_of(await quiet.store.dump(TABLES_READ))) == []


async def test_ends_and_claims_in_one_round_trip(engine: Engine) -> None:
    quiet = silent(engine)
    _, handle = await running(quiet)
    await create(quiet)
    policy = worker()
    answers, works = await quiet.complete_and_claim([(handle, b"ok")], "default", (), policy, 1)
    assert list(answers) == [None] and len(works) == 1
    await quiet.complete(works[0].handle)
    assert await events(quiet, LEASE_EVENTS) == 0
    assert await events(quiet, COMPLETION_EVENTS) == 2


def test_a_form_keeps_its_other_steps_and_the_order_of_their_values() -> None:
    for form in (COMPLETE, CLAIM):
        silent, values = without(form, LEASE_EVENTS)
        assert len(silent.steps) == len(form.steps) - 1
        given = dict.fromkeys(form.args, None) | {name: name for name in form.args}
        kept = values(tuple(given[name] for name in form.args))
        assert kept == silent.args


def test_a_form_without_such_events_stays_as_it_is() -> None:
    form, values = without(CREATE_READY, LEASE_EVENTS)
    assert form is CREATE_READY and values((1, 2)) == (1, 2)


def test_another_setting_is_refused(engine: Engine) -> None:
    with pytest.raises(ValidationError, match="lease_events: all, transitions or off"):
        Engine(engine.store, Settings(lease_events="none"))  # type: ignore[arg-type]
