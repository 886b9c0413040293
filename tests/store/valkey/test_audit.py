"""The audit of a cell: indexes, keys and counters are compared with what follows from the rows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from flowfabric.connect import index_faults
from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.model.execution import CancelExecutionArgs
from flowfabric.plan import Refused
from flowfabric.store.schema import INDEXES
from flowfabric.store.valkey import connection, library, lua_rows, store
from flowfabric.store.valkey.audit import Fault, Stored, audit, faults, read
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.library import Library, lua_text
from flowfabric.store.valkey.lua_schema import INDEX_CODES, TABLE_CODES
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h
from tests import valkey
from tests.cli.test_cli import flowfabric
from tests.engine.helpers import LANE, create, worker

from .helpers import engine_on

EXEC = TABLE_CODES["ff_exec_core"].encode()
READY = INDEX_CODES["ready"].encode()
PLANTED = {
    "entries are not removed": ("call('ZREM', P .. name, member)", "", "has no row"),
    "entries are not made": ("call('ZADD', P .. ix.code .. group, 0, member)", "", "is missing"),
    "what is undone keeps its entries": (
        "reindex(t, pk, fetch(t, pk), nil)",
        "fetch(t, pk)",
        "has no row",
    ),
    "empty groups stay in the directory": (
        "if ix.grouped and call('EXISTS', P .. name) == 0 then",
        "if false then",
        "has no row",
    ),
    "groups are not listed": ("call('ZADD', P .. 'D' .. ix.code, 0, group)", "", "is missing"),
    "keys of removed rows stay": (
        "call('ZREM', P .. t.code, pk)\n  if t.large then late",
        "if t.large then late",
        "has no row",
    ),
    "keys of new rows are not kept": (
        "call('ZADD', P .. t.code, 0, pk)\nend\n",
        "end\n",
        "is missing",
    ),
    "numbers are not kept": (
        "call('SET', P .. 'N' .. code, digits(last))",
        "last = last",
        "the last number is 0",
    ),
    "large columns stay": (
        "    call('DEL', entry.key)\n    late[at] = nil\n  end\n  undo",
        "    late[at] = nil\n  end\n  undo",
        "have no row",
    ),
    "descending numbers ascend": (
        "  return struct.pack('>I4I4', LOW - 1 - high, LOW - 1 - low)",
        "  return struct.pack('>I4I4', high, low)",
        "is missing",
    ),
}


@asynccontextmanager
async def busy(clock: ManualClock) -> AsyncIterator[Engine]:
    """A cell in which rows were made, changed and removed."""
    options = valkey.new_store(clock).options
    async with engine_on(options, clock) as engine:
        with suppress(EngineError):  # a planted bug may be noticed by the engine as well
            await _work(engine, clock)
        yield engine


async def _work(engine: Engine, clock: ManualClock) -> None:
    await h.put(engine.store, h.execution(1))
    refused = await engine.store.commit_together([h.execution(2), h.execution(1)])
    assert isinstance(refused, Refused), "the first is undone"
    made = [await create(engine, priority=n, input_payload=b"in") for n in range(6)]
    for work in await engine.claim_many(LANE, (), worker(), 3):
        await engine.complete(work.handle, b"out")
    await engine.cancel_execution(CancelExecutionArgs(execution_id=made[0]))
    await create(engine, lane_id="other")
    await engine.claim_many("other", (), worker(), 1)
    clock.advance(400 * 86_400_000)
    await engine.trim_retention(LANE)


async def audited(engine: Engine) -> list[Fault]:
    assert isinstance(engine.store, store.ValkeyStore)
    return await audit(engine.store.options)


async def test_a_cell_in_order_has_no_faults(clock: ManualClock) -> None:
    async with busy(clock) as engine:
        assert await audited(engine) == []


@pytest.mark.parametrize("name", PLANTED)
async def test_a_planted_bug_of_the_lua_is_found(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    right, wrong, says = PLANTED[name]

    def planted(*parts: str) -> str:
        text = lua_text(*parts)
        assert text.count(right) == 1, "the bug cannot be planted"
        return text.replace(right, wrong)

    monkeypatch.setattr(library, "lua_text", planted)
    made: Library = library.library.__wrapped__()
    monkeypatch.setattr(connection, "library", lambda: made)
    async with busy(clock) as engine:
        found = await audited(engine)
    assert any(says in fault.says for fault in found), found


@pytest.mark.parametrize("index", ["ready", "leased"])
async def test_a_planted_bug_of_the_renderer_is_found(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    """Forms whose changes are taken to leave the entries of an index as they are."""
    whole = lua_rows.touched

    def planted(*of: Any) -> list[Any]:
        return [each for each in whole(*of) if each.index.name != index]

    monkeypatch.setattr(lua_rows, "touched", planted)
    library.server_form.cache_clear()
    try:
        async with busy(clock) as engine:
            found = await audited(engine)
    finally:
        library.server_form.cache_clear()
    assert f"index {index}" in {fault.subject for fault in found}, found


Damage = Callable[[Stored], None]


def _drop(name: bytes) -> Damage:
    def damage(stored: Stored) -> None:
        key = next(key for key in stored.sets if key.startswith(name))
        stored.sets[key].pop()

    return damage


def _add(name: bytes) -> Damage:
    def damage(stored: Stored) -> None:
        key = next(key for key in stored.sets if key.startswith(name))
        stored.sets[key].add(b"nothing")

    return damage


DAMAGES: dict[str, tuple[Damage, str]] = {
    "an entry is missing": (_drop(READY), "index ready"),
    "an entry too many": (_add(READY), "index ready"),
    "a group is missing": (_drop(b"D" + READY), "groups of index ready"),
    "a group too many": (_add(b"D" + READY), "groups of index ready"),
    "a key is missing": (_drop(EXEC), "keys of ff_exec_core"),
    "a set that is of no index": (lambda s: s.sets.update({b"i___": {b"x"}}), "set b'i___'"),
    "a hash that is of no table": (lambda s: s.rows.update({b"t___1": {b"a": b"b"}}), "cell"),
    "a key that is not known": (lambda s: s.texts.update({b"Q": b"1"}), "cell"),
    "a key of another type": (lambda s: s.odd.append("b'x': a list"), "cell"),
}


@pytest.mark.parametrize("name", DAMAGES)
async def test_damage_is_found(clock: ManualClock, name: str) -> None:
    damage, subject = DAMAGES[name]
    async with busy(clock) as engine:
        assert isinstance(engine.store, store.ValkeyStore)
        options = engine.store.options
        link = await Connection.open(options)
        stored = await read(link, options.prefix)
        await link.close()
    assert list(faults(stored)) == []
    damage(stored)
    assert subject in {fault.subject for fault in faults(stored)}


async def test_members_with_scores_and_other_types_are_found(clock: ManualClock) -> None:
    async with busy(clock) as engine:
        assert isinstance(engine.store, store.ValkeyStore)
        options = engine.store.options
        link = await Connection.open(options)
        await link.command("ZADD", options.prefix.encode() + b":" + EXEC, "5", b"scored")
        await link.command("LPUSH", f"{options.prefix}:list", "x")
        says = " ".join(fault.says for fault in await audit(options))
        await link.close()
    assert "members have scores" in says and "a list" in says


def test_only_valkey_keeps_indexes_of_its_own() -> None:
    assert index_faults("sqlite:///nowhere.db") is None


def test_every_condition_of_an_index_is_one_that_the_audit_knows() -> None:
    known = {"is null", "not null", "in", "=", "!="}
    used = {cond.op for index in INDEXES.values() for cond in index.where}
    assert used <= known, msgspec.json.encode(sorted(used - known))


async def test_verify_reports_indexes(clock: ManualClock) -> None:
    options = valkey.new_store(clock).options
    url = f"valkey://{options.host}:{options.port}/{options.cell}"
    async with engine_on(options, clock) as engine:
        await create(engine)
    healthy = await asyncio.to_thread(flowfabric, "verify", "--db", url, "--json")
    assert (healthy.returncode, json.loads(healthy.stdout)["violations"]) == (0, [])
    link = await Connection.open(options)
    names = (await read(link, options.prefix)).sets
    ready = next(name for name in names if name.startswith(READY))
    await link.command("DEL", options.prefix.encode() + b":" + ready)
    await link.close()
    damaged = await asyncio.to_thread(flowfabric, "verify", "--db", url, "--json")
    assert damaged.returncode == 1
    found = {each["invariant"] for each in json.loads(damaged.stdout)["violations"]}
    assert found == {"indexes"}
