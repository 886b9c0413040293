"""`flowfabric server`: serves the HTTP API until a signal."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from flowfabric.cli.database import URL_VARIABLE, store_url
from flowfabric.cli.exits import refuse_windows
from flowfabric.cli.text import console, show
from flowfabric.cli.worker import say
from flowfabric.connect import is_http, is_postgres, is_valkey, sqlite_path
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError
from flowfabric.observe import sentry
from flowfabric.observe.logs import log_to_stderr

STORE_VARIABLES = ("FF_BACKEND", "FF_POSTGRES_URL", "FF_VALKEY_URL", "FF_SQLITE_PATH")
DEV_ADDRESS = "127.0.0.1:9090"


def run(
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="A TOML file; FF_* variables override it.")
    ] = None,
    check_config: Annotated[
        bool, typer.Option("--check-config", help="Print every setting and exit.")
    ] = False,
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            metavar="URL",
            help="sqlite:///path, a path, postgresql://host/database or valkey://host/cell; else "
            "FF_BACKEND and the variables of the store, else FF_URL.",
        ),
    ] = None,
) -> int:
    """Serves the HTTP API until SIGTERM or Ctrl-C, then finishes running requests."""
    refuse_windows("server", "it needs signal handlers; use WSL")
    from flowfabric.server.config import describe_settings, load_settings, read_config_file

    file = read_config_file(config) if config else {}
    environ = {**os.environ, **store_variables(db, {**file, **os.environ})}
    if check_config:
        table = Table("variable", "value", "from", "meaning", box=None, pad_edge=False)
        for name, value, source, meaning in describe_settings(environ, file):
            table.add_row(Text(name), Text(value), source, Text(meaning))
        console.print(table)
    settings = load_settings(environ, file)
    if check_config:
        show("the configuration is valid")
        return 0
    lifecycle = _lifecycle()

    def announce(url: str, durability: str) -> None:
        say(f"FlowFabric on {url} ({settings.backend}); API documentation: {url}/docs")
        say(f"durability: {durability}")
        if not (settings.api_token or settings.api_tokens_file):
            say("no FF_API_TOKEN is set: every local user has full access (FF_DEV_MODE=1)")

    with sentry.sentry_reporting(
        settings.sentry_dsn, settings.sentry_environment, settings.sentry_release
    ):
        log_to_stderr(settings.log)
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(lifecycle.run(settings, announce))
    say("stopped")
    return 0


def store_variables(db: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that name the store: of `--db`, else of FF_URL if no other variable does."""
    url = db
    if url is None and not any(environ.get(name) for name in STORE_VARIABLES):
        found = environ.get(URL_VARIABLE) or ""
        url = None if is_http(found) else found
    if not url:
        return {}
    url = store_url(url, "server")
    if is_postgres(url):
        return {"FF_BACKEND": "postgres", "FF_POSTGRES_URL": url}
    if is_valkey(url):
        return {"FF_BACKEND": "valkey", "FF_VALKEY_URL": url}
    return {"FF_BACKEND": "sqlite", "FF_SQLITE_PATH": sqlite_path(url)}


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    import uvloop

    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made


def _lifecycle() -> ModuleType:
    try:
        from flowfabric.server import lifecycle
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "httptools"):
            raise
        raise ConfigError(
            "the server needs more libraries: pip install 'flowfabric[server]'"
        ) from None
    return lifecycle


async def serve_dev_api(engine: EngineProtocol) -> None:
    """Serve the API of an open engine on loopback without tokens, until cancelled."""
    try:
        lifecycle = _lifecycle()
    except ConfigError as error:
        say(f"no API: {error}")
        return
    from flowfabric.server.config import load_settings

    environ = {
        "FF_LISTEN_ADDR": DEV_ADDRESS,
        **os.environ,
        "FF_DEV_MODE": "1",
        "FF_BACKEND": "sqlite",
        "FF_WAITPOINT_HMAC_SECRET": secrets.token_hex(32),
    }
    settings = load_settings(environ)
    try:
        async with lifecycle.serve(engine, settings) as url:
            say(f"API on {url}, documentation: {url}/docs; every local user has full access")
            await asyncio.Event().wait()
    except ConfigError as error:
        say(f"no API: {error}, or set FF_LISTEN_ADDR=127.0.0.1:0")
