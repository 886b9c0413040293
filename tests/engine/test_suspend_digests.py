"""A stored digest does not reveal its token; the key that signed the token mints it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowfabric.codec.token import fingerprint
from flowfabric.engine.engine import Engine
from flowfabric.errors import ValidationError
from flowfabric.model.waitpoint import AllOf, ApprovalSignalArgs, Single, Suspended
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock

from .helpers import LANE, running
from .suspend_helpers import park, park_held, seed, signal, suspend_args

OTHER_SECRET, THIRD_SECRET = "3b" * 32, "4c" * 32


async def rotated_out(engine: Engine, clock: ManualClock) -> None:
    """The first key is dropped by the rotation after the one that retired it."""
    await engine.rotate_waitpoint_hmac_secret_all("k2", OTHER_SECRET, 1_000)
    clock.advance(2_000)
    await engine.rotate_waitpoint_hmac_secret_all("k3", THIRD_SECRET, 1_000)


async def test_no_table_holds_a_token(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await engine.create_waitpoint(held, "ahead", approvers=["ann", "bob"])
    parked = await park_held(
        engine,
        ident,
        held,
        "a",
        "b",
        resume_condition=AllOf((Single("a"), Single("b"))),
        idempotency_key="once",
    )
    found = repr(await engine.store.dump(TABLES))
    shown = [
        ahead.hmac_token,
        *(link for _, link in ahead.links),
        *(bound.waitpoint_token for bound in parked.by_key.values()),
    ]
    assert len(set(shown)) == 5
    for token in shown:
        assert token not in found and token.partition(":")[2] not in found
    assert fingerprint(parked.waitpoint.waitpoint_token)[1] in found


@pytest.mark.parametrize("engine", ["sqlite-file"], indirect=True)
async def test_no_byte_of_the_file_tells_a_token(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine, idempotency_key="once")
    path = Path(engine.store.target.key)  # type: ignore[attr-defined]
    written = b"".join(each.read_bytes() for each in sorted(path.parent.glob(f"{path.name}*")))
    assert parked.ident.uuid.bytes in written
    assert parked.waitpoint.waitpoint_token.partition(":")[2].encode() not in written


async def test_another_process_makes_it_again(engine: Engine) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await engine.create_waitpoint(held, "ahead", approvers=["ann"])
    other = Engine(engine.store)
    assert (
        await other.read_waitpoint_token(ident.partition_index, ahead.waitpoint_id)
        == ahead.hmac_token
    )
    assert await other.read_held_waitpoint_token(held, ahead.waitpoint_id) == ahead.hmac_token
    assert (
        await other.read_held_waitpoint_token(held, ahead.waitpoint_id, "ann")
        == dict(ahead.links)["ann"]
    )
    assert await other.read_held_waitpoint_token(held, ahead.waitpoint_id, "eve") is None


async def test_it_stays_the_same_while_its_key_is_kept(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    parked = await park(engine, idempotency_key="once")
    await engine.rotate_waitpoint_hmac_secret_all("k2", OTHER_SECRET, 60_000)
    where = parked.ident.partition_index, parked.waitpoint.waitpoint_id
    assert await engine.read_waitpoint_token(*where) == parked.waitpoint.waitpoint_token
    again = await engine.suspend(parked.held, suspend_args(idempotency_key="once"))
    assert (
        isinstance(again, Suspended)
        and again.details.waitpoint_token == parked.waitpoint.waitpoint_token
    )
    assert await signal(engine, parked) == "resume_condition_satisfied"


async def approve(engine: Engine, parked: Any) -> Any:
    args = ApprovalSignalArgs(
        execution_id=parked.ident, lane_id=LANE, waitpoint_id=parked.waitpoint.waitpoint_id
    )
    return await engine.deliver_approval_signal(args)


async def test_without_its_key_a_token_is_refused(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await engine.create_waitpoint(held, "ahead", approvers=["ann"])
    other = await park(engine, made={"lane_id": "other"}, idempotency_key="once")
    await rotated_out(engine, clock)
    assert await engine.read_waitpoint_token(ident.partition_index, ahead.waitpoint_id) is None
    assert await engine.read_held_waitpoint_token(held, ahead.waitpoint_id) is None
    assert await engine.read_held_waitpoint_token(held, ahead.waitpoint_id, "ann") is None
    with pytest.raises(ValidationError, match="invalid_token"):
        await signal(engine, other)
    with pytest.raises(ValidationError, match="invalid_token"):
        await engine.look_at_waitpoint(ident, ahead.waitpoint_id, ahead.hmac_token)
    args = ApprovalSignalArgs(
        execution_id=other.ident, lane_id="other", waitpoint_id=other.waitpoint.waitpoint_id
    )
    with pytest.raises(ValidationError, match="invalid_token"):
        await engine.deliver_approval_signal(args)
    again = await engine.suspend(other.held, suspend_args(idempotency_key="once"))
    assert isinstance(again, Suspended) and again.details.waitpoint_token == ""


async def test_a_key_of_the_same_name_with_another_secret_makes_no_token(
    engine: Engine, clock: ManualClock
) -> None:
    await seed(engine)
    parked = await park(engine)
    await rotated_out(engine, clock)
    await engine.rotate_waitpoint_hmac_secret_all("k1", "5d" * 32, 60_000)
    where = parked.ident.partition_index, parked.waitpoint.waitpoint_id
    assert await engine.read_waitpoint_token(*where) is None
    with pytest.raises(ValidationError, match="invalid_token"):
        await signal(engine, parked)


async def test_an_operators_approval_needs_no_stored_token(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    assert (await approve(engine, parked)).effect
