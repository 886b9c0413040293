"""Secrets and tokens are in no log, no error and no listing, whatever is done with them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any

import pytest
from msgspec import structs

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.model.signing_key import HmacKey
from flowfabric.model.waitpoint import (
    ApprovalSignalArgs,
    OperatorOnly,
    UsePending,
    all_of_waitpoints,
)
from flowfabric.testing import ManualClock

from .helpers import LANE, fence, running
from .suspend_helpers import (
    claim_resumed,
    park_held,
    seed,
    signal_args,
    signals,
    suspend_args,
    suspension,
    waitpoints,
)

KNOWN, NEXT = "2a" * 32, "c0ffee" * 10 + "abcd"


class Shown:
    """Everything that is shown to callers, as text."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, seen: object) -> None:
        self.texts += [str(seen), repr(seen), f"{seen}"]
        if isinstance(seen, EngineError):
            self.texts += [
                repr(seen.__cause__),
                repr(seen.__context__),
                repr(seen.args),
                repr(vars(seen)),
            ]

    async def of(self, call: Awaitable[Any]) -> Any:
        try:
            answer = await call
        except EngineError as error:
            self.add(error)
            return error
        self.add(answer)
        return answer


async def everything(engine: Engine, clock: ManualClock, shown: Shown) -> list[str]:
    """Every operation, well and badly used; the tokens that were made."""
    ident, held = await running(engine)
    one = await shown.of(engine.create_waitpoint(held, "ahead"))
    two = await shown.of(engine.create_waitpoint(held, "short", 0))
    await shown.of(engine.suspend(held, suspend_args(waitpoints=[UsePending(two.waitpoint_id)])))
    said = suspend_args(
        "a",
        "b",
        resume_condition=all_of_waitpoints("a", "b"),
        idempotency_key="k",
        timeout_at=clock() + 50,
    )
    shown.add(said)
    done = await shown.of(engine.suspend(held, said))
    await shown.of(engine.suspend(held, said))
    await shown.of(engine.suspend(held, structs.replace(said, idempotency_key=None)))
    await shown.of(
        engine.suspend_by_triple(ident, fence(held), structs.replace(said, idempotency_key=None))
    )
    tokens = [one.hmac_token, two.hmac_token, *(w.waitpoint_token for w in done.details.waitpoints)]
    for bound in done.details.waitpoints:
        good = signal_args(ident, bound, idempotency_key="s", payload=b"p")
        shown.add(good)
        for wrong in (good, tokens[0], tokens[0] + "0", tokens[0][:-1], f"k1:{KNOWN}"):
            args = good if wrong is good else structs.replace(good, waitpoint_token=wrong)
            await shown.of(engine.deliver_signal(args))
        await shown.of(engine.deliver_signal(structs.replace(good, payload=b"x" * 70_000)))
        approval = ApprovalSignalArgs(
            execution_id=ident, lane_id=LANE, waitpoint_id=bound.waitpoint_id
        )
        await shown.of(engine.deliver_approval_signal(approval))
        await shown.of(engine.deliver_approval_signal(structs.replace(approval, lane_id="other")))
    await shown.of(engine.observe_signals(done.handle))
    taken = await claim_resumed(engine, ident)
    parked = await park_held(
        engine, ident, taken.handle, resume_condition=OperatorOnly(), timeout_at=clock() + 10
    )
    shown.add(parked.by_key)
    for listing in (
        engine.list_pending_waitpoints(ident),
        engine.list_open_waitpoints(),
        engine.list_suspended(ident.partition_index),
        engine.list_waitpoint_hmac_kids(),
        engine.describe_execution(ident),
        engine.list_executions(ident.partition_index),
        engine.close_waitpoint(ident, parked.waitpoint.waitpoint_id),
        engine.expire_suspension(ident),
    ):
        await shown.of(listing)
    shown.add(
        [
            *(await waitpoints(engine, ident)).values(),
            await suspension(engine, ident),
            *await signals(engine, ident),
        ]
    )
    clock.advance(10)
    await Supervisor(engine).run_once()
    await shown.of(engine.resume_execution(ident))
    await shown.of(engine.cancel_execution(CancelExecutionArgs(execution_id=ident)))
    return [*tokens, parked.waitpoint.waitpoint_token]


async def test_no_secret_and_no_token_is_shown(
    engine: Engine,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    shown = Shown()
    await seed(engine)
    events = [
        await engine.subscribe_signal_delivery(),
        await engine.subscribe_completion(),
        await engine.subscribe_lease_history(),
    ]
    tokens = await everything(engine, clock, shown)
    for kid, secret in (
        ("k1", KNOWN),
        ("k1", NEXT),
        ("k2", NEXT),
        ("k:2", NEXT),
        ("k2", NEXT + "0"),
        ("k1", NEXT),
    ):
        await shown.of(engine.seed_waitpoint_hmac_secret(kid, secret))
        for entry in (await shown.of(engine.rotate_waitpoint_hmac_secret_all(kid, secret, 10)),):
            shown.add(entry)
    shown.add(
        [
            HmacKey(*row)
            for row in (await engine.store.dump(["ff_waitpoint_hmac"]))["ff_waitpoint_hmac"]
        ]
    )
    for stream in events:
        shown.add(await anext(stream))
    printed = capsys.readouterr()
    texts = [
        *shown.texts,
        caplog.text,
        printed.out,
        printed.err,
        *(repr(r.__dict__) for r in caplog.records),
    ]
    assert len(tokens) == 5 and all(len(token) == 67 for token in tokens)
    digests = [token.split(":")[1] for token in tokens]
    for canary in (*digests, KNOWN, NEXT, repr(bytes.fromhex(KNOWN)), repr(bytes.fromhex(NEXT))):
        assert not [text for text in texts if canary.lower() in text.lower()], canary[:8]
    assert any("token_fingerprint" in text for text in texts)
