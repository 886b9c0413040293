"""What a suspend refuses, in order and without writing anything, and what it remembers
under a key.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec import structs

from flowfabric.engine.engine import Engine
from flowfabric.errors import (
    Conflict,
    ConflictKind,
    ContentionKind,
    ValidationError,
    ValidationKind,
)
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Handle
from flowfabric.model.waitpoint import (
    AllOf,
    Count,
    CountKind,
    FreshWaitpoint,
    OperatorOnly,
    Single,
    SuspendArgs,
    Suspended,
    TimeoutOnly,
    UsePending,
    all_of_waitpoints,
)
from flowfabric.testing import ManualClock
from flowfabric.testing.clock import START_MS

from .flow_helpers import change_row
from .helpers import dump, fields, forged, new_id, refused, running, state, worker
from .suspend_helpers import (
    KEY,
    claim_resumed,
    fresh,
    met,
    park,
    park_held,
    pending,
    seed,
    signal,
    signal_args,
    suspend_args,
)

WAITS, SIGS = CountKind.DISTINCT_WAITPOINTS, CountKind.DISTINCT_SIGNALS
AHEAD = UsePending(uuid4())
WEEK_MS = 604_800_000


def deep(levels: int) -> Any:
    """A composite of that many levels; the innermost one is a count."""
    return Count(1, WAITS, (KEY,)) if levels == 1 else AllOf((deep(levels - 1),))


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "2": ({"waitpoints": []}, "waitpoints_empty"),
    "3": ({"resume_condition": Single("other")}, "waitpoint_key_mismatch"),
    "4": (
        {"waitpoints": [*fresh(KEY), AHEAD]},
        "additional_waitpoint_binding_must_be_fresh at waitpoints[1]",
    ),
    "4, the second": ({"waitpoints": [*fresh(KEY, "b"), AHEAD]}, "must_be_fresh at waitpoints[2]"),
    "5": (
        {"waitpoints": fresh(KEY, "")},
        "additional_waitpoint_binding_empty_key at waitpoints[1]",
    ),
    "6": (
        {"waitpoints": fresh("a", "b"), "resume_condition": all_of_waitpoints("a", "b", "c")},
        "referenced_waitpoint_key_missing_binding: c",
    ),
    "7": ({"waitpoints": fresh(KEY, "b")}, "extra_binding_not_referenced_by_condition: b"),
    "7, of an operator's": (
        {"waitpoints": fresh("a", "b"), "resume_condition": OperatorOnly()},
        "extra_binding_not_referenced_by_condition: a",
    ),
    "8": (
        {"waitpoints": [AHEAD, *fresh("b")], "resume_condition": all_of_waitpoints("b")},
        "use_pending_with_extras_unsupported",
    ),
    "9": ({"resume_condition": TimeoutOnly()}, "timeout_only_without_deadline"),
    "10": (
        {"resume_condition": Single(KEY, "")},
        "resume_condition: empty signal name (use Wildcard instead)",
    ),
    "11": ({"timeout_at": START_MS - 600_001}, "timeout_at_in_past"),
    "11, by its own clock": (
        {"timeout_at": START_MS, "now": START_MS + 600_001},
        "timeout_at_in_past",
    ),
    "12, depth": (
        {"resume_condition": deep(5)},
        f"depth 5 exceeds cap 4 at path {'.'.join(['members[0]'] * 4)}",
    ),
    "12, no members": ({"resume_condition": AllOf(())}, "allof_empty_members at path <root>"),
    "12, no members inside": (
        {"resume_condition": AllOf((Single(KEY), AllOf(())))},
        "allof_empty_members at path members[1]",
    ),
    "12, none of them": (
        {"resume_condition": Count(0, SIGS, (KEY,))},
        "count_n_zero at path <root>",
    ),
    "12, of nothing": (
        {"resume_condition": AllOf((Single(KEY), Count(1, SIGS, ())))},
        "count_waitpoints_empty at path members[1]",
    ),
    "12, too many": (
        {"resume_condition": Count(2, WAITS, (KEY,))},
        "count_exceeds_waitpoint_set: n=2 > waitpoints.len()=1 at path <root>",
    ),
}


@pytest.mark.parametrize(("said", "detail"), BAD.values(), ids=BAD.keys())
async def test_what_is_refused_writes_nothing(
    engine: Engine, said: dict[str, Any], detail: str
) -> None:
    await seed(engine)
    ident, held = await running(engine)
    before = await dump(engine)
    for key in (None, "k"):
        with pytest.raises(ValidationError) as caught:
            await engine.suspend(held, suspend_args(idempotency_key=key, **said))
        assert (caught.value.kind, detail in caught.value.detail) == (
            ValidationKind.INVALID_INPUT,
            True,
        ), caught.value
    assert await dump(engine) == before
    assert await state(engine, ident) == "RUNNING"
    await engine.renew(held)


@pytest.mark.parametrize(
    "said",
    [
        {"resume_condition": deep(4)},
        {"timeout_at": START_MS - 600_000},
        {"resume_condition": Count(3, SIGS, (KEY,))},
    ],
    ids=["depth 4", "late within ten minutes", "more signals than waitpoints"],
)
async def test_what_is_just_allowed(engine: Engine, said: dict[str, Any]) -> None:
    await seed(engine)
    await park(engine, **said)


async def test_arguments_come_before_the_handle_and_the_handle_before_the_rest(
    engine: Engine,
) -> None:
    await seed(engine)
    _, held = await running(engine)
    broken = Handle(held.backend, held.kind, b"nonsense")
    with pytest.raises(ValidationError, match="waitpoints_empty"):
        await engine.suspend(broken, suspend_args(waitpoints=[]))
    with pytest.raises(ValidationError) as caught:
        await engine.suspend(broken, suspend_args())
    assert caught.value.kind is ValidationKind.CORRUPTION
    with pytest.raises(ValidationError) as caught:
        await engine.suspend(Handle("Valkey", held.kind, b"\x00"), suspend_args())
    assert caught.value.kind in (
        ValidationKind.CORRUPTION,
        ValidationKind.HANDLE_FROM_OTHER_BACKEND,
    )
    await refused(
        engine.suspend(forged(held, lease_epoch=7), suspend_args()), ContentionKind.LEASE_CONFLICT
    )


# ---- waitpoints that are there already


async def taken_id(engine: Engine) -> tuple[ExecutionId, Handle, UUID]:
    """An execution with an open waitpoint, and another that would like its id."""
    owner, owning = await running(engine)
    open_one = (await pending(engine, owning)).waitpoint_id
    ident, held = await running(engine, worker(2))
    assert ident != owner
    return ident, held, open_one


async def test_a_fresh_waitpoint_needs_an_id_of_its_own(engine: Engine) -> None:
    await seed(engine)
    ident, held, taken = await taken_id(engine)
    before = await dump(engine)
    with pytest.raises(Conflict) as caught:
        await engine.suspend(held, suspend_args(waitpoints=[FreshWaitpoint(taken, KEY)]))
    assert caught.value.kind is ConflictKind.WAITPOINT_ALREADY_EXISTS
    assert await dump(engine) == before and await state(engine, ident) == "RUNNING"


async def test_two_fresh_waitpoints_of_one_id_are_refused(engine: Engine) -> None:
    await seed(engine)
    _, held = await running(engine)
    one = uuid4()
    before = await dump(engine)
    twice = [FreshWaitpoint(one, "a"), FreshWaitpoint(one, "b")]
    with pytest.raises(Conflict) as caught:
        await engine.suspend(
            held, suspend_args(waitpoints=twice, resume_condition=all_of_waitpoints("a", "b"))
        )
    assert caught.value.kind is ConflictKind.WAITPOINT_ALREADY_EXISTS
    assert await dump(engine) == before


# ---- without a key to sign with


async def test_without_a_secret_nothing_is_written(engine: Engine) -> None:
    ident, held = await running(engine)
    before = await dump(engine)
    for call in (
        engine.suspend(held, suspend_args(idempotency_key="k")),
        engine.create_waitpoint(held, "x"),
    ):
        with pytest.raises(ValidationError) as caught:
            await call
        assert caught.value.kind is ValidationKind.INVALID_INPUT
        assert caught.value.detail.startswith("hmac_secret_not_initialized")
    assert await dump(engine) == before
    await engine.renew(held)
    await seed(engine)
    assert isinstance(await engine.suspend(held, suspend_args()), Suspended)
    assert await state(engine, ident) == "SUSPENDED"


# ---- remembered under a key


async def test_the_same_key_is_answered_the_same(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    first = await engine.suspend(held, suspend_args("a", idempotency_key="once"))
    before = await dump(engine)
    other = suspend_args(
        "b", "c", resume_condition=all_of_waitpoints("b", "c"), idempotency_key="once"
    )
    for asked in (engine, Engine(engine.store)):
        assert await asked.suspend(held, other) == first
        assert await asked.suspend(forged(held, lease_epoch=99), other) == first
    assert await dump(engine) == before
    await refused(
        engine.suspend(held, suspend_args(idempotency_key="")), ContentionKind.LEASE_CONFLICT
    )
    assert isinstance(first, Suspended)
    await refused_as_suspended(engine, first.handle, other)
    assert await state(engine, ident) == "SUSPENDED"


async def refused_as_suspended(engine: Engine, handle: Handle, args: SuspendArgs) -> None:
    with pytest.raises(Exception, match="already_suspended"):
        await engine.suspend(handle, args)


async def test_the_same_key_of_another_execution_is_another_key(engine: Engine) -> None:
    await seed(engine)
    one = await park(engine, idempotency_key="k", made={"execution_id": new_id(3)})
    two = await park(engine, idempotency_key="k", made={"execution_id": new_id(3)})
    assert one.waitpoint != two.waitpoint and one.ident.partition_index == two.ident.partition_index
    assert len((await engine.store.dump(["ff_suspend_dedup"]))["ff_suspend_dedup"]) == 2


async def test_a_satisfied_suspend_is_remembered_too(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held)
    await engine.deliver_signal(signal_args(ident, ahead, payload=b"early"))
    args = suspend_args(waitpoints=[UsePending(ahead.waitpoint_id)], idempotency_key="k")
    first = met(await engine.suspend(held, args))
    assert [heard.payload for heard in first.details.signals] == [b"early"]
    assert met(await engine.suspend(held, structs.replace(args, suspension_id=uuid4()))) == first


@pytest.mark.parametrize(
    ("timeout_in", "kept"),
    [(None, WEEK_MS), (5_000, 65_000), (-5_000, 60_000), (2 * WEEK_MS, WEEK_MS)],
)
async def test_how_long_it_is_remembered(
    engine: Engine, clock: ManualClock, timeout_in: int | None, kept: int
) -> None:
    await seed(engine)
    timeout_at = None if timeout_in is None else clock() + timeout_in
    parked = await park(engine, idempotency_key="k", timeout_at=timeout_at)
    again = suspend_args(idempotency_key="k")
    clock.advance(kept - 1)
    assert isinstance(await engine.suspend(parked.held, again), Suspended)
    clock.advance(1)
    await refused(engine.suspend(parked.held, again), ContentionKind.LEASE_CONFLICT)
    assert await engine.forget_signal_keys() == 1


async def test_what_cannot_be_read_counts_as_nothing(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    parked = await park(engine, idempotency_key="k")
    key = {
        "partition_key": parked.ident.partition_index,
        "idempotency_key": f"{parked.ident.uuid}:k",
    }
    for broken in (
        "{}",
        "no json",
        '{"variant":"Suspended","details":{"extras":[]},"handle_opaque_hex":"zz"}',
    ):
        await change_row(engine, "ff_suspend_dedup", key, outcome_json=broken)
        await refused(
            engine.suspend(parked.held, suspend_args(idempotency_key="k")),
            ContentionKind.LEASE_CONFLICT,
        )
    await signal(engine, parked)
    taken = await claim_resumed(engine, parked.ident)
    second = await park_held(engine, parked.ident, taken.handle, "again", idempotency_key="k")
    assert second.waitpoint.waitpoint_key == "again"
    said = await engine.suspend(taken.handle, suspend_args(idempotency_key="k"))
    assert isinstance(said, Suspended) and said.handle == second.handle
    assert fields(said.handle).lease_epoch == 3
