"""What a resume writes on every store: each waitpoint once, and none that was created ahead."""

from __future__ import annotations

from uuid import uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import Conflict, ConflictKind
from flowfabric.model.waitpoint import (
    DeliverSignalArgs,
    FreshWaitpoint,
    OperatorOnly,
    SuspendArgs,
    Suspended,
    Waitpoint,
    all_of_waitpoints,
    any_of_waitpoints,
)

from .helpers import dump, running

HEX = "2a" * 32


async def waitpoints(engine: Engine) -> dict[str, Waitpoint]:
    rows = [
        Waitpoint(*row)
        for row in (await engine.store.dump(("ff_waitpoint_pending",)))["ff_waitpoint_pending"]
    ]
    return {row.waitpoint_key: row for row in rows}


async def test_a_completing_signal_counts_on_its_waitpoint_and_closes_the_others(
    engine: Engine,
) -> None:
    await engine.seed_waitpoint_hmac_secret("k1", HEX)
    ident, handle = await running(engine)
    await engine.create_waitpoint(handle, "left")
    args = SuspendArgs(
        suspension_id=uuid4(),
        waitpoints=(FreshWaitpoint(uuid4(), "a"), FreshWaitpoint(uuid4(), "b")),
        resume_condition=any_of_waitpoints("a", "b"),
    )
    outcome = await engine.suspend(handle, args)
    assert isinstance(outcome, Suspended)
    details = outcome.details
    await engine.deliver_signal(
        DeliverSignalArgs(
            execution_id=ident,
            waitpoint_id=details.waitpoint_id,
            signal_id=uuid4(),
            waitpoint_token=details.waitpoint_token,
        )
    )
    rows = await waitpoints(engine)
    said = {
        key: (row.state, row.signal_count, row.matched_signal_count, row.version)
        for key, row in rows.items()
    }
    assert said == {
        "a": ("closed", 1, 1, 1),
        "b": ("closed", 0, 0, 1),
        "left": ("pending", 0, 0, 0),
    }


async def test_an_operators_resume_leaves_pending_waitpoints(engine: Engine) -> None:
    await engine.seed_waitpoint_hmac_secret("k1", HEX)
    ident, handle = await running(engine)
    await engine.create_waitpoint(handle, "left")
    bound = (FreshWaitpoint(uuid4(), "a"),)
    await engine.suspend(
        handle,
        SuspendArgs(suspension_id=uuid4(), waitpoints=bound, resume_condition=OperatorOnly()),
    )
    await engine.resume_execution(ident)
    assert {key: row.state for key, row in (await waitpoints(engine)).items()} == {
        "a": "closed",
        "left": "pending",
    }


async def test_one_id_for_two_waitpoints_is_refused_and_nothing_is_written(engine: Engine) -> None:
    await engine.seed_waitpoint_hmac_secret("k1", HEX)
    _, handle = await running(engine)
    before, twice = await dump(engine), uuid4()
    args = SuspendArgs(
        suspension_id=uuid4(),
        waitpoints=(FreshWaitpoint(twice, "a"), FreshWaitpoint(twice, "b")),
        resume_condition=all_of_waitpoints("a", "b"),
    )
    with pytest.raises(Conflict) as caught:
        await engine.suspend(handle, args)
    assert caught.value.kind is ConflictKind.WAITPOINT_ALREADY_EXISTS
    assert await dump(engine) == before
