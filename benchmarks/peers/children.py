"""Child processes: started, asked, and ended with their own by the id of their group."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryFile
from typing import IO

from msgspec import Struct, json

from benchmarks.peers.protocol import Reply

TIMEOUT_S = 300.0


class Child(Struct):
    """Its standard error goes to a file, so that a chatty child never blocks."""

    what: str
    process: Process
    errors: IO[bytes]

    async def reply(self) -> Reply:
        output, _ = await self.process.communicate()
        if self.process.returncode:
            raise self.failure(f"ended with {self.process.returncode}")
        return json.decode(output.splitlines()[-1], type=Reply)

    def failure(self, how: str) -> RuntimeError:
        self.errors.seek(0)
        return RuntimeError(
            f"{self.what} {how}:\n{self.errors.read().decode(errors='replace')[-4000:]}"
        )


async def ask(system: str, action: str, url: str, n: int = 0) -> Reply:
    async with _started(system, action, url, n) as child, asyncio.timeout(TIMEOUT_S):
        return await child.reply()


async def ask_served(system: str, url: str, n: int) -> Reply:
    """Round trips through a worker in another process. A worker that ends early is an error, not a
    wait.
    """
    async with (
        _started(system, "serve", url, 0) as server,
        _started(system, "roundtrip", url, n) as client,
    ):
        reply = asyncio.create_task(client.reply())
        ended = asyncio.create_task(server.process.wait())
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await asyncio.wait((reply, ended), return_when=asyncio.FIRST_COMPLETED)
            if not reply.done():
                raise server.failure("ended early")
            return reply.result()
        finally:
            reply.cancel()
            ended.cancel()


@asynccontextmanager
async def _started(system: str, action: str, url: str, n: int) -> AsyncIterator[Child]:
    command = [sys.executable, "-m", "benchmarks.peers.worker", system, action, url, str(n)]
    with TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=PIPE, stderr=errors, start_new_session=True
        )
        try:
            yield Child(f"{system} {action}", process, errors)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
