"""Signals from outside: the token is verified before the delivery."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import StateError, StateKind, TransportError
from flowfabric.model.waitpoint import DeliverSignalArgs, SignalAccepted
from flowfabric.sdk.bridge import Backend, TokenMismatch, UnknownWaitpoint, verify_and_deliver
from tests.engine.helpers import dump, state
from tests.engine.suspend_helpers import Parked, park, seed


def signal(parked: Parked) -> DeliverSignalArgs:
    return DeliverSignalArgs(
        execution_id=parked.ident,
        waitpoint_id=uuid4(),
        signal_id=uuid4(),
        waitpoint_token="none",
        signal_name="go",
    )


async def test_the_right_token_delivers(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    bound = parked.waitpoint
    done = await verify_and_deliver(
        engine, parked.ident, bound.waitpoint_id, bound.waitpoint_token, signal(parked)
    )
    assert isinstance(done, SignalAccepted)
    assert await state(engine, parked.ident) == "READY"


@pytest.mark.parametrize("shown", ["", "none", "k1:" + "0" * 64, "\ud800"])
async def test_another_token_is_a_mismatch_and_changes_nothing(engine: Engine, shown: str) -> None:
    await seed(engine)
    parked = await park(engine)
    before = await dump(engine)
    with pytest.raises(TokenMismatch) as caught:
        await verify_and_deliver(
            engine, parked.ident, parked.waitpoint.waitpoint_id, shown, signal(parked)
        )
    assert caught.value.status == 401 and parked.waitpoint.waitpoint_token not in str(caught.value)
    assert await dump(engine) == before


async def test_a_waitpoint_that_is_not_open_is_unknown(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine)
    token = parked.waitpoint.waitpoint_token
    with pytest.raises(UnknownWaitpoint) as caught:
        await verify_and_deliver(engine, parked.ident, uuid4(), token, signal(parked))
    assert caught.value.status == 404
    await engine.close_waitpoint(parked.ident, parked.waitpoint.waitpoint_id)
    with pytest.raises(UnknownWaitpoint):
        await verify_and_deliver(
            engine, parked.ident, parked.waitpoint.waitpoint_id, token, signal(parked)
        )


async def test_engine_errors_are_backend_errors(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await seed(engine)
    parked = await park(engine)
    bound = parked.waitpoint

    async def away(*_: Any) -> Any:
        raise TransportError("test", "gone")

    async def over(*_: Any) -> Any:
        raise StateError(StateKind.WAITPOINT_CLOSED)

    for method, broken, kind in (
        ("deliver_signal", over, StateError),
        ("read_waitpoint_token", away, TransportError),
    ):
        monkeypatch.setattr(engine, method, broken)
        with pytest.raises(Backend) as caught:
            await verify_and_deliver(
                engine, parked.ident, bound.waitpoint_id, bound.waitpoint_token, signal(parked)
            )
        assert caught.value.status == 500 and isinstance(caught.value.__cause__, kind)
