"""The raw loop on Valkey writes what the engine writes."""

from __future__ import annotations

from collections import Counter

from benchmarks.engines import fill
from benchmarks.raw_valkey import PREFIX, RawValkeyLives
from benchmarks.submit_claim_complete import worker
from glide import GlideClient, GlideClientConfiguration, NodeAddress

from flowfabric.connect import ValkeyBackend
from flowfabric.testing.valkey import ValkeyServer

LIVES = 3
_CODE = 4
_OF_RULES = (b"T", b"t21I", b"Di70W")
"""The time, the registry of lanes, and a group without members that the raw loop leaves."""


async def test_the_raw_loop_writes_the_same_fields_as_the_engine() -> None:
    with ValkeyServer() as server:
        raw = await RawValkeyLives.open(server.port)
        client = await GlideClient.create(
            GlideClientConfiguration([NodeAddress("127.0.0.1", server.port)])
        )
        await client.flushall()
        engine = await ValkeyBackend.connect(server.url)
        await fill(engine, LIVES)
        assert len(await worker(engine, 1)) == LIVES
        await raw.lives(LIVES)
        expected = await _shapes(client, b"{default}:")
        assert sum(expected.values()) > 10 * LIVES
        assert await _shapes(client, PREFIX.encode()) == expected
        for each in (engine, raw, client):
            await each.close()


async def _shapes(client: GlideClient, prefix: bytes) -> Counter[tuple[object, ...]]:
    """The fields of each hash and the number of members of each set, by the code of its key."""
    found: Counter[tuple[object, ...]] = Counter()
    _, keys = await client.scan(b"0", match=prefix + b"*", count=10_000)
    for key in keys:
        assert isinstance(key, bytes)
        rest = key[len(prefix) :]
        if rest.startswith(_OF_RULES):
            continue
        kind = await client.type(key)
        if kind == b"hash":
            shape: object = frozenset(await client.hkeys(key))
        else:
            shape = await client.zcard(key) if kind == b"zset" else await client.get(key)
        found[rest[: _CODE + rest.startswith((b"L", b"D", b"N"))], shape] += 1
    return found
