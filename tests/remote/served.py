"""An engine behind a server on loopback that starts with the first call."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from flowfabric import Engine
from flowfabric.connect import ensure_signing_key
from flowfabric.remote.engine import RemoteEngine
from flowfabric.remote.transport import Transport
from flowfabric.server.config import ServerSettings, load_settings
from flowfabric.server.lifecycle import serve

TOKEN = "t" * 40


def settings(**more: str) -> ServerSettings:
    given = {
        "FF_DEV_MODE": "1",
        "FF_WAITPOINT_HMAC_SECRET": "2a" * 32,
        "FF_LISTEN_ADDR": "127.0.0.1:0",
        "FF_API_TOKEN": TOKEN,
    }
    return load_settings(given | more)


class Served(RemoteEngine):
    """Its server is in this process, in the loop of the test."""

    def __init__(self, engine: Engine) -> None:
        super().__init__("http://127.0.0.1:1")
        self.behind = engine
        self._stack = AsyncExitStack()
        self._starting: asyncio.Task[None] | None = None

    async def call(self, name: str, arguments: Any) -> Any:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)
        return await super().call(name, arguments)

    async def _start(self) -> None:
        await ensure_signing_key(self.behind, "boot", "ab" * 32)
        url = await self._stack.enter_async_context(serve(self.behind, settings()))
        self._transport = Transport(url, TOKEN)

    async def end(self) -> None:
        await self._transport.close()
        await self._stack.aclose()
