"""Engine errors as problems, and as the same exceptions in a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import (
    Conflict,
    ConflictKind,
    Contention,
    ContentionKind,
    EngineError,
    NotFound,
    ResourceExhausted,
    StateError,
    StateKind,
    StreamBackpressure,
    StreamDisconnected,
    TimedOut,
    TransportError,
    Unavailable,
    ValidationError,
    ValidationKind,
)
from flowfabric.loops.supervisor import Supervisor
from flowfabric.testing import ManualClock
from flowfabric.wire.errors import as_error, problem_of
from tests.engine.helpers import create
from tests.server.client import Client, memory, served

CROWDED = "too many concurrent tails calls (server max: 3); retry with backoff"
OTHER = "validation_error"
OVER = {"already_terminal": True}
Row = tuple[EngineError, int, str, str | None, bool | None]

NAMED_STATES = {
    "execution_not_terminal",
    "max_replays_exhausted",
    "not_runnable",
    "terminal",
    "budget_exceeded",
}
SATISFIED = {"already_satisfied", "lease_expired", "lease_revoked", "stream_closed"}
NAMED_CONFLICTS = {
    "active_attempt_exists",
    "cycle_detected",
    "dependency_already_exists",
    "execution_already_in_flow",
    "waitpoint_already_exists",
    "rotation_conflict",
}


def camel(word: str) -> str:
    return "".join(part.capitalize() for part in word.split("_"))


def _validations() -> list[Row]:
    found: list[Row] = []
    for kind in ValidationKind:
        word = (
            OTHER
            if kind in (ValidationKind.CORRUPTION, ValidationKind.HANDLE_FROM_OTHER_BACKEND)
            else kind.value
        )
        found.append((ValidationError(kind, "so"), 400, f"{word}: so", None, None))
        found.append((ValidationError(kind), 400, word, None, None))
    found.append(
        (
            ValidationError(ValidationKind.INVALID_INPUT, "x", **OVER),
            409,
            "terminal: Terminal",
            "terminal",
            False,
        )
    )
    return found


def _kinds() -> list[Row]:
    found: list[Row] = []
    for contention in ContentionKind:
        status, word, again = {
            "retry_exhausted": (500, "retry_exhausted", False),
            "rate_limit_exceeded": (429, "rate_limit_exceeded", True),
            "concurrency_limit_exceeded": (429, "concurrency_limit_exceeded", True),
        }.get(contention.value, (409, "contention", True))
        found.append(
            (Contention(contention), status, f"{word}: {camel(contention.value)}", word, again)
        )
    for conflict in ConflictKind:
        word = conflict.value if conflict.value in NAMED_CONFLICTS else "conflict"
        found.append(
            (Conflict(conflict, "so"), 409, f"{word}: {camel(conflict.value)}", word, False)
        )
    for state in StateKind:
        word = "already_satisfied" if state.value in SATISFIED else "state_conflict"
        word = state.value if state.value in NAMED_STATES else word
        found.append((StateError(state), 409, f"{word}: {camel(state.value)}", word, False))
    return found


TABLE: list[Row] = [
    (NotFound("execution"), 404, "not found: execution", None, None),
    (NotFound("flow", "f1"), 404, "not found: flow", None, None),
    (ResourceExhausted("tails", 3), 429, CROWDED, "resource_exhausted", True),
    (Unavailable("claim"), 503, "backend op unavailable: claim", "unavailable", False),
    (TransportError("pg", "gone"), 500, "pg: gone", "transport", True),
    (TransportError("pg", "bad", backend_kind="protocol"), 500, "pg: bad", "protocol", False),
    (TransportError("pg", "no", backend_kind="auth"), 500, "pg: no", "auth", False),
    (
        TransportError("pg", "full", backend_kind="busy_loading"),
        500,
        "pg: full",
        "busy_loading",
        True,
    ),
    (TimedOut("commit", "slow"), 500, "timeout: commit: slow", None, False),
    (
        StreamDisconnected(b"\x01"),
        500,
        "the subscription ended; resume from cursor 01",
        None,
        False,
    ),
    (StreamBackpressure(), 500, str(StreamBackpressure()), None, False),
    (
        ValidationError(ValidationKind.INVALID_INPUT, "flow_not_found"),
        404,
        "not found: flow",
        None,
        None,
    ),
    (
        ValidationError(ValidationKind.INVALID_INPUT, "flow_already_terminal"),
        409,
        "flow_already_terminal: FlowAlreadyTerminal",
        "flow_already_terminal",
        False,
    ),
    (
        ValidationError(ValidationKind.INVALID_INPUT, "edge_not_found"),
        404,
        "not found: edge",
        None,
        None,
    ),
    (
        ValidationError(ValidationKind.INVALID_INPUT, "execution_not_in_flow"),
        409,
        "state_conflict: ExecutionNotInFlow",
        "state_conflict",
        False,
    ),
    (
        ValidationError(ValidationKind.INVALID_INPUT, "already_member_of_different_flow:f1"),
        409,
        "execution_already_in_flow: AlreadyMemberOfDifferentFlow",
        "execution_already_in_flow",
        False,
    ),
    *_validations(),
    *_kinds(),
]
ids = [f"{type(row[0]).__name__}-{row[0]}"[:60] for row in TABLE]


@pytest.mark.parametrize(("error", "status", "said", "kind", "retryable"), TABLE, ids=ids)
def test_each_error_maps_to_its_problem(
    error: EngineError, status: int, said: str, kind: str | None, retryable: bool | None
) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.error, problem.kind, problem.retryable) == (
        status,
        said,
        kind,
        retryable,
    )
    assert problem.code == error.code


@pytest.mark.parametrize("error", [row[0] for row in TABLE], ids=ids)
def test_and_is_raised_again_the_same(error: EngineError) -> None:
    again = as_error(problem_of(error))
    assert (type(again), again.code, again.retryable) == (type(error), error.code, error.retryable)
    assert getattr(again, "kind", None) == getattr(error, "kind", None)
    assert getattr(again, "already_terminal", None) == getattr(error, "already_terminal", None)


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "x",
        {},
        {"status": 502},
        {"status": 500, "title": "t", "error": "e", "code": "c", "raised": "New"},
    ],
)
def test_an_unknown_problem_becomes_a_transport_error(value: Any) -> None:
    assert isinstance(as_error(value), TransportError)


@asynccontextmanager
async def failing(
    engine: Engine, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Client]:
    async def fail(*_: object) -> None:
        raise error

    async with served(engine) as client:
        monkeypatch.setattr(engine, "read_execution_state", fail)
        yield client


STATE = "/v1/executions/%7Bfp:0%7D:7c6f6a0e-0000-4000-8000-000000000000/state"


@memory
@pytest.mark.parametrize(("error", "status", "said", "kind", "retryable"), TABLE[:8], ids=ids[:8])
async def test_over_the_wire(
    engine: Engine,
    error: EngineError,
    status: int,
    said: str,
    kind: str | None,
    retryable: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with failing(engine, error, monkeypatch) as client:
        found = await client.get(STATE)
    assert (found.status, found.error) == (status, said)
    assert (found.json.get("kind"), found.json.get("retryable")) == (kind, retryable)
    assert (kind is None) == ("kind" not in found.json) and (retryable is None) == (
        "retryable" not in found.json
    )
    assert ("retry-after" in found.headers) == (status in (429, 503))


@memory
async def test_unexpected_errors_appear_only_in_the_log(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with failing(engine, RuntimeError("the password is hunter2"), monkeypatch) as client:
        found = await client.get(STATE)
    assert (found.status, found.json["code"], found.json["retryable"]) == (500, "internal", False)
    assert b"hunter2" not in found.raw


@memory
async def test_a_store_that_does_not_answer(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise TransportError("pg", "gone")

    async with served(engine) as client:
        ready = await client.get("/readyz")
        assert (ready.status, ready.json["status"]) == (200, "ready")
        monkeypatch.setattr(engine, "ping", fail)
        live, ready = await client.get("/healthz"), await client.get("/readyz")
    assert (live.status, live.json["kind"], live.json["retryable"]) == (500, "transport", True)
    assert (ready.status, ready.json["status"], ready.json["checks"]["store"]) == (
        503,
        "not ready",
        "failed: transport_error",
    )


@memory
async def test_readiness_fails_when_no_loop_acts_on_timers(
    engine: Engine, clock: ManualClock
) -> None:
    async with served(engine) as client:
        await create(engine, delay_until=clock.now_ms + 1_000)
        clock.advance(31_000)
        ready = await client.get("/readyz")
        assert (ready.status, ready.json["oldest_overdue_timer_s"]) == (200, 30.0)
        clock.advance(1)
        ready = await client.get("/readyz")
        assert (ready.status, ready.json["checks"]["timers"][:7]) == (503, "overdue")
        await Supervisor(engine).run_once()
        ready = await client.get("/readyz")
        assert (ready.status, ready.json["oldest_overdue_timer_s"]) == (200, 0.0)
