"""A proxy before a server that loses one commit or its answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal, Self

CHUNK = 65_536
COMMITS = b"ff_commit_"
Lost = Literal["statement", "answer"]


class Proxy:
    """`lose` arms it for the next commit on any connection, and closes that connection."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._how: Lost | None = None
        self._links: set[_Link] = set()
        self.lost = self.port = 0

    def lose(self, how: Lost) -> None:
        self._how = how

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        for link in tuple(self._links):
            link.abort()
        while self._links:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def _carry(self, asks: asyncio.StreamReader, here: asyncio.StreamWriter) -> None:
        answers, there = await asyncio.open_connection("127.0.0.1", self._server_port)
        link = _Link(self, here, there)
        self._links.add(link)
        await asyncio.gather(link.ask(asks), link.answer(answers))
        link.abort()
        for writer in (here, there):
            with suppress(OSError):
                await writer.wait_closed()
        self._links.discard(link)

    def strikes(self, asked: bytes) -> Lost | None:
        """Whether these bytes are lost, or the answer to them."""
        if self._how is None or COMMITS not in asked:
            return None
        how, self._how = self._how, None
        self.lost += 1
        return how


class _Link:
    def __init__(
        self, proxy: Proxy, here: asyncio.StreamWriter, there: asyncio.StreamWriter
    ) -> None:
        self._proxy, self._here, self._there = proxy, here, there
        self._struck = False

    def abort(self) -> None:
        self._here.transport.abort()
        self._there.transport.abort()

    async def ask(self, asks: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while asked := await asks.read(CHUNK):
                how = self._proxy.strikes(asked)
                if how == "statement":
                    self.abort()
                    return
                self._struck = self._struck or how == "answer"
                self._there.write(asked)
        self._there.close()

    async def answer(self, answers: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while answered := await answers.read(CHUNK):
                if self._struck:
                    break
                self._here.write(answered)
        self.abort()
