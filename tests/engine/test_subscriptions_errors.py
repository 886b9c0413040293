"""Subscriptions when the store fails or a row is damaged."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from flowfabric.codec.event_cursor import BEGINNING, encode_cursor
from flowfabric.engine.engine import Engine
from flowfabric.engine.events import subscriptions
from flowfabric.errors import (
    Contention,
    ContentionKind,
    EngineError,
    ResourceExhausted,
    StreamDisconnected,
    TimedOut,
    TransportError,
)
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import ChangePriorityArgs

from .helpers import completed, create, running
from .test_subscriptions import nxt, silent, take

CHANNELS = (
    "subscribe_lease_history",
    "subscribe_completion",
    "subscribe_signal_delivery",
    "subscribe_operator_events",
)
PARTITIONS = (0, 7, 128, 255)


ERRORS: list[EngineError] = [
    TransportError("x", "away"),
    ResourceExhausted("x", 1),
    TimedOut("x", "slow"),
    Contention(ContentionKind.RETRY_EXHAUSTED),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e.code)
@pytest.mark.parametrize("call", ["read_events", "load"])
async def test_a_transient_failure_is_retried(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, call: str, error: EngineError
) -> None:
    """Reading a page, asking what was trimmed, and looking tags up."""
    ident, _ = await completed(engine, tags={"app.colour": "blue"})
    real, calls = getattr(engine.store, call), 0

    async def shaky(*asked: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 2:
            raise error
        return await real(*asked)

    monkeypatch.setattr(engine.store, call, shaky)
    monkeypatch.setattr(subscriptions, "FIRST_RETRY_S", 0.001)
    following = engine.subscribe_completion(
        BEGINNING, ScannerFilter(instance_tag=("app.colour", "blue"))
    )
    assert (await nxt(following)).execution_id == ident
    assert calls == (2 if call == "read_events" else 4)


async def test_a_lasting_failure_disconnects_and_the_iteration_can_continue(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await completed(engine)
    following = engine.subscribe_completion(BEGINNING)
    assert (await nxt(following)).execution_id == first
    tries = 0

    async def gone(*_: Any) -> Any:
        nonlocal tries
        tries += 1
        raise TransportError("x", "away")

    with monkeypatch.context() as patched:
        patched.setattr(engine.store, "read_events", gone)
        patched.setattr(subscriptions, "FIRST_RETRY_S", 0.0)
        patched.setattr(subscriptions, "LAST_RETRY_S", 0.0)
        with pytest.raises(StreamDisconnected) as caught:
            await nxt(following)
        assert caught.value.cursor == encode_cursor(1)
        assert tries == subscriptions.MAX_RETRIES
    second, _ = await completed(engine)
    assert (await nxt(following)).execution_id == second


async def test_close_ends_the_retries(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    following = engine.subscribe_completion(BEGINNING)

    async def gone(*_: Any) -> Any:
        following.close()
        raise TransportError("x", "away")

    monkeypatch.setattr(engine.store, "read_events", gone)
    with pytest.raises(StreamDisconnected):
        await nxt(following)
    with pytest.raises(StopAsyncIteration):
        await nxt(following)


async def test_a_failed_start_is_an_error_and_is_tried_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = engine.store.last_event

    async def gone(channel: str) -> int:
        raise TransportError("x", "away")

    monkeypatch.setattr(engine.store, "last_event", gone)
    following = engine.subscribe_completion()
    with pytest.raises(StreamDisconnected) as caught:
        await following
    assert caught.value.cursor == b"" and isinstance(caught.value.__cause__, TransportError)
    monkeypatch.setattr(engine.store, "last_event", real)
    await following
    ident, _ = await completed(engine)
    assert (await nxt(following)).execution_id == ident


DAMAGE = [
    ("subscribe_lease_history", "ff_lease_event", "execution_id = 'no uuid'"),
    ("subscribe_lease_history", "ff_lease_event", "event_type = 'mislaid'"),
    ("subscribe_lease_history", "ff_lease_event", "lease_id = 'no uuid'"),
    ("subscribe_operator_events", "ff_operator_event", "details = '[1]'"),
]


@pytest.mark.parametrize(
    "wanted", [None, ScannerFilter(instance_tag=("app.colour", "blue"))], ids=["all", "by tag"]
)
@pytest.mark.parametrize(
    ("method", "table", "change"), DAMAGE, ids=[d[2].replace(" ", "") for d in DAMAGE]
)
async def test_a_damaged_row_is_skipped_with_a_warning(
    in_sql: Engine,
    caplog: pytest.LogCaptureFixture,
    method: str,
    table: str,
    change: str,
    wanted: ScannerFilter | None,
) -> None:
    for _ in range(3):
        ident, _ = await running(in_sql, tags={"app.colour": "blue"})
        other = await create(in_sql, lane_id="another", tags={"app.colour": "blue"})
        await in_sql.change_priority(ChangePriorityArgs(execution_id=other, new_priority=1))
    assert ident
    store: Any = in_sql.store
    damage = f"UPDATE {table} SET {change} WHERE event_id = 2"
    if in_sql.backend_label == "postgres" and "no uuid" in change:
        with pytest.raises(EngineError, match="invalid input syntax for type uuid"):
            await store.execute_for_test(damage)
        return
    await store.execute_for_test(damage)
    following = getattr(in_sql, method)(BEGINNING, wanted)
    with caplog.at_level(logging.WARNING, "flowfabric.subscriptions"):
        seen = await take(following, 2)
    assert [e.cursor for e in seen] == [encode_cursor(1), encode_cursor(3)]
    assert following.passed_over == 1
    (record,) = caplog.records
    assert record.getMessage() == "an event cannot be read and is skipped"
    assert (vars(record)["channel"], vars(record)["event"]) == (table, 2)
    assert await silent(in_sql, following, table)
