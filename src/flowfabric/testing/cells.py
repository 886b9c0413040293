"""Cells for the tests of this process, on a Valkey server that is named or started."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable
from itertools import count

from msgspec import structs

from flowfabric.connect import valkey_options
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.options import Options
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing.valkey import SERVER_URL, ValkeyServer

REMOVE_TIMEOUT_S = 60.0
_REMOVE = """
local at = '0'
repeat
  local found = redis.call('SCAN', at, 'MATCH', ARGV[1], 'COUNT', 1000)
  at = found[1]
  for _, key in ipairs(found[2]) do redis.call('UNLINK', key) end
until at == '0'
"""


class Cells:
    """Each of them is empty, and its keys are removed at the end."""

    def __init__(self) -> None:
        self._named = os.environ.get(SERVER_URL)
        self._server = None if self._named else ValkeyServer().start()
        self._home = valkey_options(self._named or (self._server.url if self._server else ""))
        self._numbers, self._made = count(), list[str]()

    def new(self) -> Options:
        self._made.append(f"ff_test_{os.getpid()}_{next(self._numbers)}")
        return structs.replace(self._home, cell=self._made[-1])

    def close(self) -> None:
        """A process of its own removes the keys: glide answers no other event loop of this process
        while the one that was its first is open and does not run.
        """
        if self._server is not None:
            self._server.stop()
        elif self._made:
            subprocess.run(
                [sys.executable, "-m", __name__],
                input="\n".join(self._made),
                text=True,
                env={**os.environ, SERVER_URL: self._named or ""},
                timeout=REMOVE_TIMEOUT_S,
                check=True,
            )


async def _remove(url: str, cells: Iterable[str]) -> None:
    home = valkey_options(url)
    connection = await Connection.open(home)
    try:
        for cell in cells:
            prefix = structs.replace(home, cell=cell).prefix
            key = f"{prefix}:T"  # names the slot of the cell
            await connection.command("EVAL", _REMOVE, "1", key, f"{prefix}:*")
    finally:
        await connection.close()


class ReopeningStore(ValkeyStore):
    """Its connection belongs to an event loop: `async with engine:` opens and closes it as often as
    needed.
    """

    async def prepare(self) -> str | None:
        if self._closed:
            self._closed, self._in_order = False, asyncio.Lock()
        return await super().prepare()


if __name__ == "__main__":
    asyncio.run(_remove(os.environ[SERVER_URL], sys.stdin.read().split()))
