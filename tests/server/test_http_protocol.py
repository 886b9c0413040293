"""Slow, large and too many requests are refused, and other clients are served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from flowfabric import memory_engine
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError
from flowfabric.server import http_protocol
from flowfabric.server.endpoint import Endpoint
from flowfabric.server.http_protocol import MAX_HEAD_BYTES
from flowfabric.server.lifecycle import bind, serve
from tests.patience import patient
from tests.remote.served import settings
from tests.server.client import ADMIN, SOON_S, Client, memory, served

SHORT_S = 0.15
TOKEN = f"Authorization: Bearer {ADMIN}\r\n".encode()


class Wire:
    """A connection on which anything can be sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def rest(self) -> bytes:
        """All that comes until the other side closes."""
        async with patient(SOON_S):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    async def head(self) -> bytes:
        async with patient(SOON_S):
            return await self.reader.readuntil(b"\r\n\r\n")


@asynccontextmanager
async def wire(client: Client) -> AsyncIterator[Wire]:
    where = urlsplit(client.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


def a_head(size: int) -> bytes:
    start = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    line = b"X-Long: " + b"y" * 1_000 + b"\r\n"
    return start + line * (size // len(line)) + b"\r\n"


@memory
@pytest.mark.parametrize("begun", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"])
async def test_a_head_that_does_not_end_is_cut(engine: Engine, begun: bytes) -> None:
    async with served(engine, slow_client_s=SHORT_S) as client, wire(client) as slow:
        await slow.send(begun)
        assert await slow.rest() == b""
        assert (await client.get("/healthz")).status == 200


@memory
async def test_a_second_head_that_does_not_end_is_cut_too(engine: Engine) -> None:
    async with served(engine, slow_client_s=SHORT_S) as client, wire(client) as slow:
        await slow.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await slow.head()).startswith(b"HTTP/1.1 200")
        await slow.send(b"GET /healthz HTTP/1.1\r\n")
        assert (await slow.rest()).endswith(b'{"status":"ok"}')


@memory
@pytest.mark.parametrize(
    "framing", [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"]
)
async def test_a_body_that_does_not_end_is_answered(engine: Engine, framing: bytes) -> None:
    async with served(engine, slow_client_s=SHORT_S) as client, wire(client) as slow:
        start = b"POST /v1/flows HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + TOKEN
        await slow.send(start + framing)
        assert (await slow.head()).startswith(b"HTTP/1.1 408")


@memory
@pytest.mark.parametrize("pieces", [1, 4, 40])
async def test_a_head_may_be_so_long(engine: Engine, pieces: int) -> None:
    async with served(engine) as client:
        for size, status in ((MAX_HEAD_BYTES - 2_000, b"200"), (MAX_HEAD_BYTES + 4_000, b"431")):
            async with wire(client) as loud:
                data = a_head(size)
                step = len(data) // pieces + 1
                for at in range(0, len(data), step):
                    loud.writer.write(data[at : at + step])
                assert (await loud.head()).startswith(b"HTTP/1.1 " + status), size
        assert (await client.get("/healthz")).status == 200


@memory
async def test_an_endless_head_is_refused_by_size(engine: Engine) -> None:
    async with served(engine) as client, wire(client) as loud:
        loud.writer.write(
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"y" * (MAX_HEAD_BYTES * 2)
        )
        said = await loud.rest()
        assert said == b"" or said.startswith(
            b"HTTP/1.1 431"
        )  # what is still on its way when it closes may take the answer along
        assert (await client.get("/healthz")).status == 200


@memory
@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ],
)
async def test_invalid_http_is_refused(engine: Engine, data: bytes) -> None:
    async with served(engine) as client, wire(client) as odd:
        await odd.send(data)
        assert (await odd.rest()).startswith(b"HTTP/1.1 400")
        assert (await client.get("/healthz")).status == 200


@memory
async def test_too_many_connections(engine: Engine) -> None:
    async with served(engine, max_connections=3) as client:
        held = [await _held(client, TOKEN) for _ in range(2)]
        async with wire(client) as more:
            await more.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await more.rest()).startswith(b"HTTP/1.1 503")
        for each in held:
            each.writer.close()
        async with patient(SOON_S):
            while (await client.get("/healthz", headers={"Connection": "close"})).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0)


async def _held(client: Client, token: bytes = b"") -> Wire:
    where = urlsplit(client.url)
    made = Wire(*await asyncio.open_connection(where.hostname, where.port))
    await made.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + token + b"\r\n")
    assert (await made.head()).startswith(b"HTTP/1.1 200")
    return made


async def _asked(client: Client) -> int:
    """By a caller with a token and a connection of its own."""
    return (await client.get("/v1/config", headers={"Connection": "close"})).status


async def _silent(client: Client) -> Wire:
    where = urlsplit(client.url)
    return Wire(*await asyncio.open_connection(where.hostname, where.port))


@memory
@pytest.mark.parametrize("stranger", [_held, _silent])
@pytest.mark.parametrize("per_address", [1_000, 10])
async def test_strangers_that_idle_keep_no_place_from_token_holders(
    engine: Engine, stranger: Callable[[Client], Awaitable[Wire]], per_address: int
) -> None:
    async with served(
        engine, max_connections=40, max_connections_per_address=per_address
    ) as client:
        member = await _held(client, TOKEN)
        strangers = []
        for _ in range(6):
            strangers += [await stranger(client) for _ in range(20)]
            assert await _asked(client) == 200
        await strangers[0].rest()  # the oldest was closed; the youngest still has its place
        assert not strangers[-1].reader.at_eof()
        await member.send(b"GET /v1/config HTTP/1.1\r\nHost: x\r\n" + TOKEN + b"\r\n")
        async with patient(SOON_S):
            await member.reader.readuntil(b"HTTP/1.1 200")
        for each in (member, *strangers):
            each.writer.close()


@memory
async def test_strangers_that_do_not_finish_their_request_make_room_too(engine: Engine) -> None:
    begun = (
        b"POST /approve/x/y HTTP/1.1\r\nHost: x\r\nContent-Type: "
        b"application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nt="
    )
    async with served(engine, max_connections=10) as client:
        slow = [await _silent(client) for _ in range(9)]
        for each in slow:
            await each.send(begun)
        for _ in range(20):
            assert await _asked(client) == 200
        assert await slow[0].rest() == b""
        for each in slow:
            each.writer.close()


@memory
async def test_unauthenticated_connections_per_address_are_limited(engine: Engine) -> None:
    async with served(engine, max_connections_per_address=3) as client:
        held = [await _held(client) for _ in range(3)]
        more = await _held(client)
        assert (await held[0].rest()).endswith(b'{"status":"ok"}')
        members = [await _held(client, TOKEN) for _ in range(6)]
        for each in members:
            await each.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await each.rest()).count(b'{"status":"ok"}') == 2
        for each in (*held, *members, more):
            each.writer.close()


@memory
async def test_unauthenticated_keep_alive_is_short_under_load(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "CROWDED_KEEP_ALIVE_S", 0.05)
    async with served(engine, max_connections=6) as client:
        few = await _held(client)
        members = [await _held(client, TOKEN) for _ in range(2)]
        crowded = await _held(client)
        assert await crowded.rest() == b'{"status":"ok"}'
        await few.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await few.rest()).count(b'{"status":"ok"}') == 2
        for each in (few, crowded, *members):
            each.writer.close()


@memory
@pytest.mark.parametrize(
    "framing", [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"]
)
async def test_a_disconnect_within_a_body_is_not_an_error(
    engine: Engine,
    framing: bytes,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = asyncio.Event()
    real = Endpoint.answer

    async def answering(endpoint: Endpoint, request: Any) -> Any:
        try:
            return await real(endpoint, request)
        finally:
            left.set()

    monkeypatch.setattr(Endpoint, "answer", answering)
    async with served(engine) as client:
        leaving = await _silent(client)
        await leaving.send(
            b"POST /v1/flows HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            + TOKEN
            + framing
        )
        leaving.writer.close()
        async with patient(SOON_S):
            await left.wait()
        assert (await client.get("/healthz")).status == 200
    assert [each for each in caplog.records if each.levelname in ("ERROR", "WARNING")] == []


@memory
async def test_a_websocket_is_not_spoken_here(engine: Engine) -> None:
    async with served(engine) as client:
        asked: Any = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "eA==",
        }
        answer = await client.get("/healthz", headers=asked)
        assert (answer.status, "upgrade" in answer.headers) == (200, False)


@memory
@pytest.mark.parametrize(
    "path",
    [
        "lanes",
        "workers",
        "suspended?partition=0",
        "executions/{id}/history",
        "executions/{id}/attempts",
        "executions/{id}/pending-waitpoints",
    ],
)
async def test_pages_have_a_most(engine: Engine, path: str) -> None:
    async with served(engine) as client:
        path = path.replace("{id}", await client.create())
        joined = f"/v1/{path}{'&' if '?' in path else '?'}limit="
        assert (await client.get(f"{joined}1000")).status == 200
        for bad in ("1001", "0", "-1", "99999999999999999999999", "x", ""):
            assert (await client.get(f"{joined}{bad}")).status == 400, bad


async def test_an_address_in_use_is_a_config_error() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        busy = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=r"FF_LISTEN_ADDR.*choose another port"):
            async with serve(memory_engine(), settings(FF_LISTEN_ADDR=busy)):
                pass
