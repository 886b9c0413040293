"""What a Valkey server says of itself, and rows that are written without the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowfabric.plan import Applied, Arg, Form, Insert
from flowfabric.store.port import Store
from flowfabric.testing.valkey import ValkeyServer

if TYPE_CHECKING:
    from glide import GlideClient

APPEND_FILE = ("--appendonly", "yes", "--appendfsync", "everysec")
"""As Valkey advises it for work that must outlive the server."""
CALLS = ("cmdstat_fcall", "cmdstat_fcall_ro", "cmdstat_eval")
"""What the engine sends; the commands that the functions run are counted by themselves."""
BUFFERS = (
    "mem_clients_normal",
    "mem_clients_slaves",
    "mem_aof_buffer",
    "mem_total_replication_buffers",
)
ROWS_AT_ONCE = 1_000


def new_server() -> ValkeyServer:
    """In the working folder, since the one for temporary files may be in memory."""
    return ValkeyServer(*APPEND_FILE, folder=Path())


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[GlideClient]:
    from glide import GlideClient, GlideClientConfiguration, NodeAddress

    address = [NodeAddress("127.0.0.1", port)]
    client = await GlideClient.create(GlideClientConfiguration(address, request_timeout=60_000))
    try:
        yield client
    finally:
        await client.close()


async def info(port: int) -> dict[str, str]:
    async with client_of(port) as client:
        text = await client.custom_command(["INFO", "everything"])
    assert isinstance(text, bytes)
    lines = text.decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


async def memory(port: int) -> int:
    """Bytes of the keys and values, without the buffers of connections and of the append file."""
    found = await info(port)
    return int(found["used_memory"]) - sum(int(found.get(name, 0)) for name in BUFFERS)


async def keys(port: int) -> int:
    async with client_of(port) as client:
        return await client.dbsize()


async def calls(port: int) -> int:
    """Calls of the engine since the server started."""
    found = await info(port)
    return sum(_count(found[name]) for name in CALLS if name in found)


def _count(statistic: str) -> int:
    return int(dict(part.split("=") for part in statistic.split(","))["calls"])


async def insert_rows(
    store: Store, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Rows of a table and their index entries, as they are."""
    form = Form(f"bench_rows_of_{table}", Insert(table, {name: Arg(name) for name in columns}))
    waiting = iter(rows)
    while some := list(islice(waiting, ROWS_AT_ONCE)):
        answers = await store.commit_many(
            [form.given(dict(zip(columns, row, strict=True))) for row in some]
        )
        assert all(isinstance(answer, Applied) for answer in answers)
