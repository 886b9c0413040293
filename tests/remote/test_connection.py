"""The HTTP connection, against scripted servers."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from flowfabric.errors import TransportError
from flowfabric.remote import connection, transport
from flowfabric.remote.transport import Transport

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n42"
BYE = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n42"
HANG_UP = b""


class Scripted:
    """Answers each request of each connection with the next pieces; nothing more comes unless the
    last of them is HANG_UP.
    """

    def __init__(self, *answers: Sequence[bytes]) -> None:
        self._answers = iter(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.left = asyncio.Event()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                self.asked.set()
                pieces = next(self._answers)
                for piece in pieces:
                    if piece is HANG_UP:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()


@asynccontextmanager
async def scripted(
    *answers: Sequence[bytes], tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Scripted, str]]:
    script = Scripted(*answers)
    server = await asyncio.start_server(script.talk, "127.0.0.1", 0, ssl=tls)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield script, f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"


async def ask(client: Transport, *, again: bool = False, body: bytes = b"{}") -> bytes:
    return await client.post("/v1/engine/ping", body, again=again)


async def test_one_connection_serves_calls_one_after_the_other() -> None:
    async with scripted([OK], [OK], [OK]) as (server, url):
        client = Transport(f"{url}/below/", "secret")
        for _ in range(3):
            assert await ask(client, body=b'{"a":1}') == b"42"
        await client.close()
    assert server.connections == 1
    head, body = server.requests[2].split(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"POST /below/v1/engine/ping HTTP/1.1"
    assert {
        b"authorization: Bearer secret",
        b"content-type: application/json",
        b"content-length: 7",
    } <= set(head.split(b"\r\n"))
    assert body == b'{"a":1}'


def test_another_event_loop_does_as_well() -> None:
    async def calls() -> list[bytes]:
        async with scripted([OK], [OK]) as (_, url):
            client = Transport(url)
            answers = [await ask(client), await ask(client)]
            await client.close()
            return answers

    assert uvloop.run(calls()) == [b"42", b"42"]


async def test_calls_at_the_same_time_have_a_connection_each() -> None:
    async with scripted([OK[:10]], [OK], [OK]) as (server, url):
        client = Transport(url)
        waiting = asyncio.create_task(ask(client))
        await server.asked.wait()
        assert await ask(client) == b"42"
        assert await ask(client) == b"42"
        assert server.connections == 2
        waiting.cancel()
        await server.left.wait()  # a cancelled caller closes its connection
        await client.close()


async def test_calls_that_wait_do_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted(*([] for _ in range(3)), [OK], [OK]) as (server, url):
        monkeypatch.setattr(transport, "MAX_CALLS", 1)
        monkeypatch.setattr(transport, "MAX_LONG_POLLS", 3)
        client = Transport(url)
        waiting = [
            asyncio.create_task(client.post("/wait", b"", again=False, wait_s=60)) for _ in range(4)
        ]
        while len(server.requests) < 3:
            await server.asked.wait()
            server.asked.clear()
        assert await ask(client) == b"42"
        waiting[0].cancel()
        assert await waiting[3] == b"42"  # the next in the queue
        for task in waiting[1:3]:
            task.cancel()
        await client.close()


@pytest.mark.parametrize(
    "pieces",
    [
        [OK[at : at + 1] for at in range(len(OK))],
        [
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n4\r\n",
            b"1\r\n2\r\n0\r\n\r\n",
        ],
        [b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n", OK],
        [b"HTTP/1.1 100 Continue\r\n\r\n" + OK],
    ],
    ids=["byte by byte", "chunked", "with hints", "after a continue"],
)
async def test_an_answer_may_come_in_any_form(pieces: list[bytes]) -> None:
    async with scripted(pieces, [OK]) as (server, url):
        client = Transport(url)
        assert [await ask(client), await ask(client)] == [b"42", b"42"]
        assert server.connections == 1
        await client.close()


async def test_nothing_is_read_as_null() -> None:
    async with scripted([b"HTTP/1.1 204 No Content\r\n\r\n"], [OK]) as (_, url):
        client = Transport(url)
        assert [await ask(client), await ask(client)] == [b"null", b"42"]
        await client.close()


async def test_a_server_that_closes_is_connected_to_again() -> None:
    async with scripted([BYE], [OK]) as (server, url):
        client = Transport(url)
        assert [await ask(client), await ask(client)] == [b"42", b"42"]
        assert server.connections == 2
        await client.close()


async def test_a_connection_that_was_not_used_for_long_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "KEEP_ALIVE_S", 0.0)
    async with scripted([OK], [OK]) as (server, url):
        client = Transport(url)
        assert [await ask(client), await ask(client)] == [b"42", b"42"]
        assert server.connections == 2
        await client.close()


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([HANG_UP], "closed the connection"),
        ([OK[:-1], HANG_UP], "closed the connection"),
        ([b"SSH-2.0-OpenSSH_9.6\r\n"], "no response"),
        (
            [b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"],
            "no response",
        ),
        (
            [b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n", b"x" * 4_999],
            "more than 1000 bytes",
        ),
    ],
    ids=["none", "half of one", "no http", "another protocol", "too much"],
)
async def test_an_answer_that_cannot_be_read_is_a_doubt(
    pieces: list[bytes], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_ANSWER_BYTES", 1_000)
    monkeypatch.setattr(transport, "FIRST_RETRY_S", 0.0)
    async with scripted(pieces, [OK]) as (server, url):
        client = Transport(url)
        with pytest.raises(TransportError, match=said) as doubt:
            await ask(client)
        assert doubt.value.doubtful
        assert await ask(client, again=True) == b"42"
        assert server.connections == 2
        await client.close()


@pytest.mark.parametrize("more", [OK, OK[:4], OK[:-2]])
async def test_an_unsolicited_response_closes_the_connection(more: bytes) -> None:
    async with scripted([OK + more], [OK.replace(b"42", b"43")]) as (server, url):
        client = Transport(url)
        assert await ask(client) == b"42"
        assert await ask(client) == b"43"
        assert server.connections == 2
        await client.close()


async def test_no_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "TIMEOUT_S", 0.01)
    async with scripted([]) as (server, url):
        client = Transport(url)
        with pytest.raises(TransportError, match="no response") as doubt:
            await ask(client)
        assert doubt.value.doubtful
        await server.left.wait()
        await client.close()


async def test_close_ends_pending_calls() -> None:
    async with scripted([]) as (server, url):
        client = Transport(url)
        waiting = asyncio.create_task(ask(client))
        await server.asked.wait()
        await client.close()
        with pytest.raises(TransportError, match="no response"):
            await waiting


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Of localhost, and its key."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("certificates are made with openssl")
    made, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    whose = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = [
        program,
        "req",
        "-x509",
        "-nodes",
        *curve,
        *whose,
        "-days",
        "2",
        "-keyout",
        str(key),
        "-out",
        str(made),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


async def test_a_server_with_a_certificate(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    async with scripted([OK], [OK], tls=tls) as (server, url):
        stranger = Transport(url)
        with pytest.raises(TransportError, match=r"cannot be reached.*certificate") as refused:
            await ask(stranger)
        assert not refused.value.doubtful
        await stranger.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        client = Transport(url)
        assert [await ask(client), await ask(client)] == [b"42", b"42"]
        assert len(server.requests) == 2
        await client.close()
