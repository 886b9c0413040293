"""A proxy between some processes and their server. When it is cut, requests arrive and answers do
not.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

HOLD_S = 0.03
CHUNK = 65_536


class Wire:
    """Listens on its own port, in its own thread."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
        self._listener = self._loop.run_until_complete(
            asyncio.start_server(self._carry, "127.0.0.1", 0)
        )
        self.port: int = self._listener.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def cut(self) -> int:
        """Cuts every open link; returns their number."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()
        self._loop.call_soon_threadsafe(self._listener.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cut(self) -> int:
        """Drops answers for a moment, so that calls in flight end without an answer."""
        links = tuple(self._links)
        for link in links:
            link.mute = True
        await asyncio.sleep(HOLD_S)
        for link in links:
            link.abort()
        return len(links)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, there[1])
        self._links.add(link)
        try:
            await asyncio.gather(link.ask(reader), link.answer(there[0]))
        finally:
            self._links.discard(link)


class _Link:
    def __init__(self, here: asyncio.StreamWriter, there: asyncio.StreamWriter) -> None:
        self._here, self._there = here, there
        self.mute = False

    async def ask(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while asked := await reader.read(CHUNK):
                self._there.write(asked)
        self._there.close()

    async def answer(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while answered := await reader.read(CHUNK):
                if not self.mute:
                    self._here.write(answered)
        self._here.close()

    def abort(self) -> None:
        self._here.transport.abort()
        self._there.transport.abort()
