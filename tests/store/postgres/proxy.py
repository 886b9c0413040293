"""A proxy that loses one statement, or the answer to it, and closes the connection."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

Lost = Literal["statement", "answer", "patience"]
"""The statement itself; its answer; or the wait for its answer, while the server is still at it."""

_HEADER = 5


class Proxy:
    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._word, self._how = b"", ""
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost = 0

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        port = self._server.sockets[0].getsockname()[1]
        netloc = f"{self._parts.username}@127.0.0.1:{port}"
        return urlunsplit(self._parts._replace(netloc=netloc, query="sslmode=disable"))

    def lose(self, how: Lost, word: str) -> None:
        """At the next statement that contains this text, once."""
        self._word, self._how = word.encode(), how

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        up_reader, up_writer = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        down = _Answers(up_reader, writer)
        asked = asyncio.create_task(self._ask(reader, up_writer, down))
        answered = asyncio.create_task(down.run())
        try:
            await asyncio.wait((asked, answered), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in (asked, answered):
                part.cancel()
            await asyncio.gather(asked, answered, return_exceptions=True)
            await _end(writer)
            await _end(up_writer)

    async def _ask(
        self, reader: asyncio.StreamReader, up: asyncio.StreamWriter, down: _Answers
    ) -> None:
        texts: dict[bytes, bytes] = {}
        up.write(await _startup(reader))
        losing = ""
        while True:
            kind, body = await _message(reader)
            said = _said(kind, body, texts)
            if self._how and self._word in said:
                losing, self._how = self._how, ""
                self.lost += 1
                down.muted = True
            if losing == "statement":
                return
            up.write(kind + (len(body) + 4).to_bytes(4, "big") + body)
            await up.drain()
            if losing and kind in (b"S", b"Q"):
                if losing == "patience":
                    await down.hang_up()
                await down.swallowed.wait()
                return


class _Answers:
    """The server's messages, forwarded until it is muted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.muted = False
        self.swallowed = asyncio.Event()

    async def run(self) -> None:
        while True:
            kind, body = await _message(self._reader)
            if not self.muted:
                self._writer.write(kind + (len(body) + 4).to_bytes(4, "big") + body)
                await self._writer.drain()
            elif kind == b"Z":
                self.swallowed.set()

    async def hang_up(self) -> None:
        await _end(self._writer)


def _said(kind: bytes, body: bytes, texts: dict[bytes, bytes]) -> bytes:
    """The text of the statement that this message runs."""
    if kind == b"P":
        name, text = body.split(b"\0", 2)[:2]
        texts[name] = text
        return b""
    if kind == b"B":
        return texts.get(body.split(b"\0", 2)[1], b"")
    return body if kind == b"Q" else b""


async def _startup(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big") - 4)


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    header = await reader.readexactly(_HEADER)
    return header[:1], await reader.readexactly(int.from_bytes(header[1:], "big") - 4)


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
