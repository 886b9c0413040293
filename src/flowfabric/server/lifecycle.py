"""The lifecycle of a server process: open the engine, serve, drain, close."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from flowfabric.connect import POSTGRES_LOOPS, connect_store, ensure_signing_key
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import ConfigError
from flowfabric.observe import Metrics, tracing_from_environment
from flowfabric.server.app import Server, build
from flowfabric.server.config import ServerSettings
from flowfabric.server.http_protocol import KEEP_ALIVE_S, ConnectionLimits, bounded_protocol
from flowfabric.server.telemetry import ServerTelemetry

if TYPE_CHECKING:
    pass

log = logging.getLogger("flowfabric.server")

FIRST_KID = "k1"
LOOPS_GRACE_S = 15.0


_Tuning = tuple[dict[str, Any], LoopSettings]
_TUNING: dict[str, Callable[[ServerSettings], _Tuning]] = {
    "sqlite": lambda settings: ({"pool_size": settings.sqlite_pool_size}, LoopSettings()),
    "postgres": lambda settings: (
        {"migrate": True, "readers": settings.postgres_pool_size},
        POSTGRES_LOOPS,
    ),
    "valkey": lambda settings: ({"durability": settings.durability or None}, POSTGRES_LOOPS),
}
"""Settings of the connection, and the intervals of the loops."""


@asynccontextmanager
async def open_engine(settings: ServerSettings) -> AsyncIterator[LocalEngineProtocol]:
    """Open a migrated store with a signing key and running loops."""
    tuning, loops = _TUNING[settings.backend](settings)
    engine = await connect_store(
        settings.store_url, dev=settings.dev_mode, loops=False, settings=settings.engine, **tuning
    )
    try:
        if settings.backend != "postgres":  # migrated when it was opened
            await engine.prepare()
        if not await ensure_signing_key(engine, FIRST_KID, settings.waitpoint_hmac_secret):
            log.warning("FF_WAITPOINT_HMAC_SECRET differs from the stored signing key; ignored")
        engine.with_scanners(settings.loops(loops))
        yield engine
    finally:
        await engine.shutdown_prepare(LOOPS_GRACE_S)
        await engine.close()


def uvicorn_server(server: Server, settings: ServerSettings) -> uvicorn.Server:
    config = uvicorn.Config(
        build(server),
        http=bounded_protocol(
            settings.slow_client_s,
            ConnectionLimits(settings.max_connections, settings.max_connections_per_address),
        ),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.drain_s,
    )
    return uvicorn.Server(config)


@asynccontextmanager
async def serve(
    engine: LocalEngineProtocol,
    settings: ServerSettings,
    telemetry: ServerTelemetry | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[str]:
    """Serve until the block ends; yields the address."""
    server = Server(engine, settings, telemetry, clock)
    running = uvicorn_server(server, settings)
    listener = bind(*settings.listen_addr)
    task = asyncio.create_task(running._serve(sockets=[listener]))
    try:
        while not running.started:
            if task.done():
                task.result()
            await asyncio.sleep(0.005)
        yield address(listener)
    finally:
        server.drain()
        running.should_exit = True
        await task
        listener.close()
        await server.finish_background(LOOPS_GRACE_S)


def bind(host: str, port: int) -> socket.socket:
    """Bind the socket here, because uvicorn exits the process when it cannot bind.

    The protocol is explicit, because asyncio sets TCP_NODELAY only then; without it, a response
    takes 40 ms longer.
    """
    sock = socket.socket(
        socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        reason = f"cannot listen on {host}:{port} ({error.strerror}); choose another port"
        raise ConfigError(f"FF_LISTEN_ADDR: {reason}") from None
    return sock


def address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def run(settings: ServerSettings, announce: Callable[[str, str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then finish running requests within FF_DRAIN_S.

    `announce` gets the address, and what a crash of the store can lose.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with ExitStack() as last:
        async with open_engine(settings) as engine:
            telemetry = ServerTelemetry(
                Metrics() if settings.metrics else None, engine, tracing_from_environment()
            )
            last.callback(telemetry.push())  # the last push includes the end of the loops
            async with serve(telemetry.engine, settings, telemetry) as url:
                announce(url, engine.durability)
                await stop.wait()
                log.info("server stopping; finishing running requests")
