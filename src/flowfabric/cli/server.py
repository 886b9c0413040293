"""`flowfabric server`: the HTTP API, until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flowfabric.cli.worker import say
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError
from flowfabric.observe import sentry
from flowfabric.observe.logs import log_to_stderr

DEV_ADDRESS = "127.0.0.1:9090"


def run(config: str | None, console: Console, *, check: bool) -> int:
    from flowfabric.server.config import explained, read_file, settings_of

    file = read_file(config) if config else {}
    if check:
        table = Table("variable", "value", "from", "meaning", box=None, pad_edge=False)
        for name, value, source, meaning in explained(os.environ, file):
            table.add_row(Text(name), Text(value), source, Text(meaning))
        console.print(table)
    settings = settings_of(os.environ, file)
    if check:
        console.print("the configuration can be used", highlight=False)
        return 0
    lifecycle = _library()

    def announce(url: str) -> None:
        say(f"FlowFabric on {url} ({settings.backend}); the API is described at {url}/docs")
        if not (settings.api_token or settings.api_tokens_file):
            say(
                "anybody on this machine may do everything: no FF_API_TOKEN is set, and FF_DEV_MODE=1 allows that on loopback"
            )

    with sentry.told(settings.sentry_dsn, settings.sentry_environment, settings.sentry_release):
        log_to_stderr(settings.log)
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(lifecycle.run(settings, announce))
    say("stopped")
    return 0


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    import uvloop

    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made


def _library() -> Any:
    try:
        from flowfabric.server import lifecycle
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "httptools"):
            raise
        raise ConfigError(
            "the server needs more libraries: pip install 'flowfabric[server]'"
        ) from None
    return lifecycle


async def beside(engine: EngineProtocol) -> None:
    """The API of an engine that is open already, for development: on loopback, for everybody there, until it is cancelled."""
    try:
        lifecycle = _library()
    except ConfigError as error:
        say(f"no API: {error}")
        return
    from flowfabric.server.config import settings_of

    environ = {
        "FF_LISTEN_ADDR": DEV_ADDRESS,
        **os.environ,
        "FF_DEV_MODE": "1",
        "FF_BACKEND": "sqlite",
        "FF_WAITPOINT_HMAC_SECRET": secrets.token_hex(32),
    }
    settings = settings_of(environ)
    try:
        async with lifecycle.serving(engine, settings) as url:
            say(f"API on {url}, described at {url}/docs; anybody on this machine may use it")
            await asyncio.Event().wait()
    except ConfigError as error:
        say(f"no API: {error}, say FF_LISTEN_ADDR=127.0.0.1:0")
