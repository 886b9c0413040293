"""Checks of output streams: a valid snapshot passes, planted violations are caught."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest

from flowfabric import (
    BestEffortLive,
    ClaimPolicy,
    CreateExecutionArgs,
    DurableSummary,
    Engine,
    ExecutionId,
    ExecutionPolicy,
    Frame,
    FrameKind,
    RetryPolicy,
)
from flowfabric.model.policy import StreamPolicy
from flowfabric.model.stream import DURABLE_SLACK
from flowfabric.store.memory import MemoryStore
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

IDENT = ExecutionId.of(1, UUID(int=1))
META, FRAME, SUMMARY, ATTEMPT = (
    "ff_stream_meta",
    "ff_stream_frame",
    "ff_stream_summary",
    "ff_attempt",
)
CAP = 2
POLICY = ExecutionPolicy(
    retry_policy=RetryPolicy(max_retries=3, backoff={"type": "fixed", "delay_ms": 0}),
    stream_policy=StreamPolicy(retention_maxlen=CAP),
)
Tables = dict[str, list[Any]]
Plant = Callable[[Tables], None]


async def make() -> Tables:
    """Two attempts: of the first many frames are trimmed, of the second the last one, which was
    live, is forgotten.
    """
    clock = ManualClock()
    engine = Engine(MemoryStore(clock))
    await engine.create_execution(CreateExecutionArgs(execution_id=IDENT, policy=POLICY))
    for attempt in range(2):
        handle = await engine.claim("default", (), ClaimPolicy("w", "w-1", 3_600_000))
        assert handle is not None
        await engine.append_frame(handle, Frame(b"first", FrameKind.Stdout, seq=1))
        if attempt == 0:
            await engine.append_frames(handle, [Frame(b"x", FrameKind.Stdout)] * DURABLE_SLACK)
        await engine.append_frames(
            handle, [Frame(b"y", FrameKind.Stdout, seq=n) for n in (2, 3, 4)]
        )
        for n in range(3):
            clock.advance(1)
            await engine.append_frame(
                handle, Frame(b'{"n":%d}' % n, FrameKind.Event, mode=DurableSummary())
            )
        clock.advance(1)
        await engine.append_frame(handle, Frame(b"z", FrameKind.Event, mode=BestEffortLive(1_000)))
        await (engine.complete(handle) if attempt else engine.fail(handle, "nope"))
        clock.advance(10_000)
    assert await engine.forget_live_frames() == 2
    return await engine.store.dump(TABLES_READ)


@pytest.fixture(scope="module")
def sound() -> Tables:
    return asyncio.run(make())


def change(table: str, row: int, **columns: Any) -> Plant:
    """The row of the second attempt where there is one per attempt; a frame counts from the end."""

    def plant(tables: Tables) -> None:
        found = dict(zip(TABLES[table].names, tables[table][row], strict=True))
        changed = {
            name: value(found[name]) if callable(value) else value
            for name, value in columns.items()
        }
        tables[table][row] = tuple({**found, **changed}.values())

    return plant


def drop(table: str, row: int) -> Plant:
    return lambda tables: tables[table].pop(row)


def copy(table: str, row: int, **columns: Any) -> Plant:
    def plant(tables: Tables) -> None:
        tables[table].append(tables[table][row])
        change(table, -1, **columns)(tables)

    return plant


def plus(n: int) -> Callable[[int], int]:
    return lambda value: value + n


def test_a_valid_snapshot_passes(sound: Tables) -> None:
    world = snapshot_of(sound)
    assert check(world) == []
    first, second = world.streams.values()
    assert first.durable_trimmed and not second.durable_trimmed
    assert [frame.mode for frame in world.frames[1, IDENT.uuid, 1]] == ["durable"] * 4 + [
        "summary"
    ] * 3
    assert [frame.mode for frame in world.frames[1, IDENT.uuid, 0]] == ["durable"] * CAP + [
        "summary"
    ] * 3


@pytest.mark.parametrize(
    ("plant", "invariant", "says"),
    [
        (change(FRAME, -1, number=plus(-1)), "I10", "two frames have number"),
        (change(FRAME, -1, ts_ms=5), "I10", "has id 5-0, the one before it"),
        (
            change(FRAME, -1, mode_number=plus(-1)),
            "I10",
            "2 summary frames have number 2 of their mode",
        ),
        (
            change(META, -1, frame_count=plus(1)),
            "I11",
            "9 frames, which is not the sum of its modes",
        ),
        (change(META, -1, frame_count=4), "I11", "4 frames up to"),
        (
            change(META, -1, frame_count=0, durable_count=0, summary_count=0, live_count=0),
            "I11",
            "0 frames",
        ),
        (change(META, -1, has_durable_frame=0), "I11", "has_durable_frame is 0"),
        (change(META, -1, last_ts_ms=plus(-1)), "I11", "but its last frame is 7"),
        (
            change(META, -1, frame_count=7, live_count=0, last_seq=plus(1)),
            "I11",
            "but its last frame is 7",
        ),
        (drop(FRAME, -7), "I11", "durable frame 1 is gone, trimmed were 0"),
        (drop(FRAME, -1), "I11", "summary frame 3 is gone, trimmed were 0"),
        (change(META, 0, durable_trimmed=plus(-1)), "I11", "is gone, trimmed were"),
        (change(META, 0, durable_trimmed=plus(1)), "I11", "outside of"),
        (
            copy(FRAME, -1, mode="best_effort", mode_number=2, number=8, seq=1),
            "I11",
            "best_effort frame 2 outside of 1 to 1",
        ),
        (change(SUMMARY, -1, version=plus(1)), "I11", "3 patches made a document of version 4"),
        (drop(SUMMARY, -1), "I11", "3 patches made a document of version 0"),
        (change(SUMMARY, -1, document_json="[]"), "I11", "its document is not a JSON object"),
        (change(SUMMARY, -1, document_json="{"), "I11", "its document is not a JSON object"),
        (change(FRAME, -1, created_at_ms=plus(60_000)), "I5", "the attempt had ended at"),
        (change(FRAME, -4, client_seq=3), "I15", "2 frames have the caller's number 3"),
        (drop(META, -1), "I16", "frame without a stream"),
        (drop(META, -1), "I16", "document without a stream"),
        (drop(ATTEMPT, -1), "I16", "stream without an attempt"),
    ],
)
def test_each_violation_is_caught(sound: Tables, plant: Plant, invariant: str, says: str) -> None:
    tables = deepcopy(sound)
    plant(tables)
    found = check(snapshot_of(tables))
    assert any(
        violation.invariant == invariant and says in violation.says for violation in found
    ), found
    assert all(f"{IDENT}" in violation.subject for violation in found)


def test_ends_with_a_decision_time_are_not_checked(sound: Tables) -> None:
    late = change(FRAME, -1, created_at_ms=plus(60_000))
    for end in (
        {"outcome": "cancelled"},
        {"outcome": "failed", "failure_reason": "budget_exceeded:b:d"},
    ):
        tables = deepcopy(sound)
        late(tables)
        change(ATTEMPT, -1, **end)(tables)
        assert not [
            violation for violation in check(snapshot_of(tables)) if violation.invariant == "I5"
        ]
