"""SQLite's result codes: which are tried again, and what the rest become."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from flowfabric.errors import (
    Contention,
    ContentionKind,
    EngineError,
    ResourceExhausted,
    TransportError,
    ValidationError,
    ValidationKind,
)
from flowfabric.plan import Applied
from flowfabric.store.sqlite import group_commit as groups_module
from flowfabric.store.sqlite.errors import as_engine_error, code_of, is_busy, is_doubtful
from flowfabric.store.sqlite.registry import open_store
from flowfabric.store.sqlite.store import SqliteStore

from .helpers import coded, failing, lane, lanes

RETRIED = (5, 6, 261, 517, 773, 262, 518)
NOT_RETRIED = (0, 1, 11, 13, 21, 266, 2067)


@pytest.mark.parametrize(
    ("code", "expected"), [*((c, True) for c in RETRIED), *((c, False) for c in NOT_RETRIED)]
)
def test_only_busy_and_locked_codes_are_retried(code: int, expected: bool) -> None:
    assert is_busy(code) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [(10, True), (266, True), (778, True), (1034, True), (13, False), (5, False)],
)
def test_only_a_disk_error_is_doubtful(code: int, expected: bool) -> None:
    assert is_doubtful(coded(code)) is expected


def test_an_error_without_a_code_is_neither_busy_nor_doubtful() -> None:
    error = sqlite3.OperationalError("x")
    assert (code_of(error), is_doubtful(error)) == (0, False)
    assert isinstance(as_engine_error(error), TransportError)


@pytest.mark.parametrize("code", RETRIED)
def test_busy_after_all_tries_is_contention(code: int) -> None:
    error = as_engine_error(coded(code))
    assert isinstance(error, Contention) and error.kind is ContentionKind.RETRY_EXHAUSTED
    assert error.retryable


@pytest.mark.parametrize("code", [11, 26, 267, 523])
def test_a_damaged_file_is_corruption(code: int) -> None:
    error = as_engine_error(coded(code, sqlite3.DatabaseError))
    assert isinstance(error, ValidationError) and error.kind is ValidationKind.CORRUPTION
    assert not error.retryable


def test_a_full_disk_is_exhaustion() -> None:
    error = as_engine_error(coded(13))
    assert isinstance(error, ResourceExhausted) and error.retryable


@pytest.mark.parametrize(("code", "retryable"), [(10, True), (266, True), (14, False)])
def test_other_errors_are_transport_errors(code: int, retryable: bool) -> None:
    error = as_engine_error(coded(code))
    assert isinstance(error, TransportError) and error.backend == "sqlite"
    assert error.retryable is retryable


@pytest.mark.parametrize("code", [19, 275, 787, 1299, 3091])
def test_a_broken_constraint_is_corruption_and_not_retried(code: int) -> None:
    error = as_engine_error(coded(code, sqlite3.IntegrityError))
    assert isinstance(error, ValidationError) and error.kind is ValidationKind.CORRUPTION, repr(
        error
    )
    assert not error.retryable


# ---- the writer under injected errors


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store that leaves all writing to its thread; see `test_inline_writes`."""
    store = open_store(str(tmp_path / "ff.db"))
    store.writer.thread_groups_left = 1_000_000
    yield store
    asyncio.run(store.close())


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the writer."""
    slept: list[float] = []
    monkeypatch.setattr(groups_module, "time", SimpleNamespace(sleep=slept.append))
    return slept


@pytest.mark.parametrize("times", [0, 1, 2])
@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "INSERT", "COMMIT"])
async def test_a_busy_database_is_tried_three_times(
    file_store: SqliteStore, pauses: list[float], statement: str, times: int
) -> None:
    failing(file_store, statement, 5, times)
    assert isinstance(await file_store.commit(lane("a")), Applied)
    assert pauses == [0.005, 0.01][:times]
    assert await lanes(file_store) == ["a"]


@pytest.mark.parametrize("code", RETRIED)
async def test_after_three_tries_it_is_contention_and_nothing_is_written(
    file_store: SqliteStore, pauses: list[float], code: int
) -> None:
    cursor = failing(file_store, "COMMIT", code, 3)
    with pytest.raises(Contention) as caught:
        await file_store.commit(lane("a"))
    assert caught.value.kind is ContentionKind.RETRY_EXHAUSTED
    assert (cursor.raised, sum(pauses)) == (3, 0.015)
    assert await lanes(file_store) == []
    assert isinstance(await file_store.commit(lane("b")), Applied)
    assert await lanes(file_store) == ["b"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [(11, ValidationError), (13, ResourceExhausted), (21, TransportError), (1, TransportError)],
)
async def test_other_errors_are_answered_at_once_and_roll_back(
    file_store: SqliteStore, pauses: list[float], code: int, kind: type[EngineError]
) -> None:
    cursor = failing(file_store, "COMMIT", code, 1)
    rung: list[object] = []
    file_store.hub.announce = lambda topics, dues: rung.extend([*topics, *dues])  # type: ignore[method-assign]
    with pytest.raises(kind):
        await file_store.commit(lane("a"))
    assert (cursor.raised, pauses, rung) == (1, [], [])
    assert isinstance(await file_store.commit(lane("b")), Applied)
    assert await lanes(file_store) == ["b"]


@pytest.mark.parametrize("code", [10, 778, 1034])
async def test_after_a_disk_error_writing_stops_and_reads_continue(
    file_store: SqliteStore, code: int
) -> None:
    assert isinstance(await file_store.commit(lane("before")), Applied)
    failing(file_store, "COMMIT", code, 1)
    for name in ("a", "b", "c"):
        with pytest.raises(TransportError, match="writing stopped"):
            await file_store.commit(lane(name))
    assert await lanes(file_store) == ["before"]
