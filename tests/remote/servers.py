"""Server processes on their own ports, and a proxy that loses responses."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from tests.remote.served import TOKEN
from tests.sdk.processes import eventually

SECRET = "5e" * 32


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """`flowfabric server` on a store; it can be killed and started again at the same address."""

    def __init__(self, store_url: str, folder: Path, port: int | None = None) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        where = {"FF_BACKEND": "postgres", "FF_POSTGRES_URL": store_url}
        if store_url.startswith("valkey"):
            where = {"FF_URL": store_url}
        elif not store_url.startswith("postgres"):
            where = {"FF_BACKEND": "sqlite", "FF_SQLITE_PATH": store_url.removeprefix("sqlite:///")}
        self._environ = {
            **os.environ,
            **where,
            "FF_DEV_MODE": "1",
            "FF_API_TOKEN": TOKEN,
            "FF_WAITPOINT_HMAC_SECRET": SECRET,
            "FF_LISTEN_ADDR": f"127.0.0.1:{self.port}",
            "FF_LEASE_EXPIRY_INTERVAL_MS": "100",
            "FF_DELAYED_PROMOTER_INTERVAL_MS": "100",
            "FF_DRAIN_S": "5",
        }
        self._log = folder / f"server-{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self._begin()
        await eventually(self.answers)

    def _begin(self) -> None:
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "flowfabric.cli.main", "server"]
            self._process = subprocess.Popen(command, env=self._environ, stdout=log, stderr=log)

    async def answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.write(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        line = await reader.readline()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return b" 200 " in line

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    async def stop(self) -> int:
        """Politely; its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self._process.wait, 30)

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()


@contextmanager
def server(store_url: str, folder: Path, port: int | None = None) -> Iterator[ServerProcess]:
    made = ServerProcess(store_url, folder, port)
    try:
        yield made
    finally:
        made.end()


class Thief:
    """A proxy between client and server: for the configured path it passes the request on, waits
    for the first byte of the answer, kills the server, and delivers nothing.
    """

    def __init__(self, target: ServerProcess) -> None:
        self._target, self.wanted, self.stolen = target, b"", 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        listener = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        async with listener:
            yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target.port)
        except OSError:
            writer.close()
            return
        stealing = asyncio.Event()
        with suppress(OSError, asyncio.IncompleteReadError):
            await asyncio.wait(
                {
                    asyncio.create_task(self._forward(reader, back, stealing)),
                    asyncio.create_task(self._answer(there, writer, stealing)),
                },
                return_when=asyncio.FIRST_COMPLETED,
            )
        for each in (writer, back):
            each.close()

    async def _forward(
        self, reader: asyncio.StreamReader, back: asyncio.StreamWriter, stealing: asyncio.Event
    ) -> None:
        while data := await reader.read(65_536):
            if self.wanted and self.wanted in data:
                self.wanted = b""
                stealing.set()
            back.write(data)
            await back.drain()

    async def _answer(
        self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, stealing: asyncio.Event
    ) -> None:
        while data := await there.read(65_536):
            if stealing.is_set():
                self.stolen += 1
                self._target.kill()
                return
            writer.write(data)
            await writer.drain()
