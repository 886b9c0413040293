"""What refuses a database that a copy has not ended, and what keeps two copies apart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flowfabric.connect import connect_store, look_at_store, read_tables
from flowfabric.connect.transfer import CopyRefused, copy_database, open_destination
from flowfabric.errors import TransportError, Unavailable
from flowfabric.store.schema import TABLES
from flowfabric.store.transfer import Destination, Step
from flowfabric.store.valkey import cell_rows
from flowfabric.store.valkey import transfer as valkey_transfer
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.options import options_of
from tests.cli.commands import flowfabric
from tests.store.copying import fill, new_url, some_rows

each_kind = pytest.mark.parametrize("kind", ["sqlite", "postgres", "valkey"])


def ignored(_: Step) -> None:
    """A report that is not looked at."""


async def half_copied(kind: str, folder: Path) -> tuple[str, str]:
    """A source, and a copy of it that was interrupted."""
    src, dst = new_url("sqlite", "from", folder), new_url(kind, "to", folder)
    await fill(src, 2)

    def stop(step: Step) -> None:
        if step.phase == "verify":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await copy_database(src, dst, stop)
    return src, dst


@each_kind
async def test_an_engine_does_not_open_an_unfinished_copy(kind: str, tmp_path: Path) -> None:
    src, dst = await half_copied(kind, tmp_path)
    for opening in (connect_store(dst, loops=False, dev=True), look_at_store(dst)):
        with pytest.raises(Unavailable) as caught:
            async with await opening:
                """Not reached."""
        assert f"has only a part of {src}" in str(caught.value)
        assert "run the same `flowfabric copy`" in str(caught.value)
        assert "or drop " in str(caught.value)
    await copy_database(src, dst, ignored)
    engine = await connect_store(dst, loops=False, dev=True)
    await engine.close()


@each_kind
async def test_a_command_on_an_unfinished_copy_says_so(kind: str, tmp_path: Path) -> None:
    src, dst = await half_copied(kind, tmp_path)
    done = await asyncio.to_thread(flowfabric, "list", "--db", dst)
    assert done.returncode == 1
    assert f"has only a part of {src}" in done.stderr


@each_kind
async def test_an_unfinished_copy_is_no_source(kind: str, tmp_path: Path) -> None:
    src, dst = await half_copied(kind, tmp_path)
    with pytest.raises(CopyRefused, match="is an unfinished copy of sqlite:") as caught:
        await copy_database(dst, new_url("sqlite", "other", tmp_path), ignored)
    assert src in str(caught.value)


# ---- Valkey


async def test_two_copies_into_a_cell_exclude_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey_transfer, "LOCK_S", 0.4)
    monkeypatch.setattr(valkey_transfer, "ASK_EVERY_S", 0.1)
    src, dst = new_url("sqlite", "from", tmp_path), new_url("valkey", "to", tmp_path)
    await fill(src, 1)
    async with open_destination(dst):
        with pytest.raises(TransportError, match="another copy of this database is running"):
            await copy_database(src, dst, ignored)
    await copy_database(src, dst, ignored)


async def test_a_copy_that_lost_its_cell_writes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey_transfer, "ASK_EVERY_S", 0.01)
    dst = new_url("valkey", "to", tmp_path)
    options = options_of(dst)
    other = await Connection.open(options)
    async with open_destination(dst) as side:
        await other.command("SET", f"{options.prefix}:copy", "another")
        with pytest.raises(TransportError, match="another copy has taken this database over"):
            await write_slowly(side, "ff_lane_registry")
    await other.close()


async def write_slowly(side: Destination, table: str) -> None:
    for row in some_rows(TABLES[table], 10_000):
        await side.write(TABLES[table], [row])
        await asyncio.sleep(0.001)


async def test_rows_that_something_else_writes_meanwhile_are_not_replaced(tmp_path: Path) -> None:
    dst = new_url("valkey", "to", tmp_path)
    table = TABLES["ff_lane_registry"]
    rows = some_rows(table, 5)
    async with open_destination(dst) as side:
        await side.write(table, rows[3:4])
        with pytest.raises(TransportError, match=r"ff_lane_registry has a row .* already"):
            await side.write(table, rows)
        assert await side.count(table) == 1


async def test_background_loops_on_a_cell_are_named(tmp_path: Path) -> None:
    src, dst = new_url("valkey", "from", tmp_path), new_url("sqlite", "to", tmp_path)
    await fill(src, 1)
    options = options_of(src)
    connection = await Connection.open(options)
    await connection.command("SET", f"{options.prefix}:leader", "p-7")
    with pytest.raises(CopyRefused, match="background loops run in process p-7"):
        await copy_database(src, dst, ignored)
    await connection.command("DEL", f"{options.prefix}:leader")
    await copy_database(src, dst, ignored)
    await connection.close()


async def test_large_rows_are_written_in_calls_of_a_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_rows, "WRITTEN_BYTES", 100)
    src, dst = new_url("sqlite", "from", tmp_path), new_url("valkey", "to", tmp_path)
    await fill(src, 9)
    await copy_database(src, dst, ignored)
    found = [await asyncio.to_thread(read_tables, url, TABLES) for url in (src, dst)]
    assert {name: set(rows) for name, rows in found[0].items()} == {
        name: set(rows) for name, rows in found[1].items()
    }


async def test_the_last_key_of_a_cell_has_the_values_of_its_row(tmp_path: Path) -> None:
    dst = new_url("valkey", "to", tmp_path)
    await fill(dst, 3)
    async with open_destination(dst) as side:
        for name, table in TABLES.items():
            (page,) = [page async for page in side.pages(table, None)]
            key = tuple(page[-1][table.names.index(column)] for column in table.key)
            assert await side.last_key(table) == key, name
