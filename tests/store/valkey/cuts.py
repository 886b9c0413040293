"""A network between a client and servers, that can be cut, and that can speak TLS."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress

import pytest
from glide import GlideClusterClientConfiguration

CHUNK = 65_536


class Network:
    """One listener per node; while it is cut, bytes stop in both directions and links stay.

    It has an event loop of its own, since a client that connects blocks that of the test.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._listeners: dict[int, asyncio.Server] = {}
        self._links: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    def open(self, ports: Sequence[int]) -> None:
        self._do(self._open(ports))

    async def _open(self, ports: Sequence[int]) -> None:
        for port in ports:
            self._listeners[port] = await asyncio.start_server(
                self._serve(port), "127.0.0.1", 0, ssl=self._tls
            )

    def close(self) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        await self._end_links()

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._flows.clear)

    def restore(self) -> None:
        """The links that were cut end without what was on its way."""
        self._do(self._restore())

    async def _restore(self) -> None:
        await self._end_links()
        self._flows.set()

    async def _end_links(self) -> None:
        for link in tuple(self._links):
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    def _do(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def address(self, host: str, port: int) -> tuple[str, int]:
        listener = self._listeners[port]
        return host, int(listener.sockets[0].getsockname()[1])

    def carry_clients(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of those that are opened from now on."""
        resolve = self.address

        class Through(GlideClusterClientConfiguration):
            def __init__(self, *args: object, **named: object) -> None:
                super().__init__(*args, address_resolver=resolve, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(
            "flowfabric.store.valkey.client.GlideClusterClientConfiguration", Through
        )

    def _serve(
        self, port: int
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._links.add(task)
            task.add_done_callback(self._links.discard)
            up, down = await asyncio.open_connection("127.0.0.1", port)
            parts = [
                asyncio.create_task(self._copy(reader, down)),
                asyncio.create_task(self._copy(up, writer)),
            ]
            try:
                await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)
                for end in (writer, down):
                    end.transport.abort()

        return serve

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
