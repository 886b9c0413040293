"""The server: the state that all requests share, and the ASGI application made from the routes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

from msgspec import structs
from starlette.applications import Starlette
from starlette.routing import Route as Path
from starlette.types import ASGIApp, Receive, Scope, Send

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import ResourceExhausted, Unavailable
from flowfabric.server.auth import ANONYMOUS, Caller, load_tokens
from flowfabric.server.config import ServerSettings
from flowfabric.server.endpoint import Endpoint
from flowfabric.server.pending_claims import PendingClaims
from flowfabric.server.route import Route
from flowfabric.server.routes import ROUTES
from flowfabric.server.stored_tokens import StoredTokens, stored_token_in
from flowfabric.server.telemetry import ServerTelemetry
from flowfabric.wire.operations import Bound

MAX_ENGINES = 1_000
"""Of namespaces that tokens are bound to; a further one replaces the first."""


class ConcurrencyLimit:
    """Refuses an operation above the maximum at once instead of queueing it."""

    def __init__(self, pool: str, maximum: int) -> None:
        self._pool, self._maximum, self.used, self._open = pool, maximum, 0, True

    def close(self) -> None:
        """Refuse new operations; running ones may finish."""
        self._open = False

    @contextmanager
    def slot(self) -> Iterator[None]:
        if not self._open:
            raise Unavailable(self._pool)
        if self.used >= self._maximum:
            raise ResourceExhausted(self._pool, self._maximum)
        self.used += 1
        try:
            yield
        finally:
            self.used -= 1


class Server:
    """State shared by all requests."""

    def __init__(
        self,
        engine: LocalEngineProtocol,
        settings: ServerSettings,
        telemetry: ServerTelemetry | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine, self.settings = engine, settings
        self.telemetry = telemetry or ServerTelemetry(None, engine)
        self.tokens = load_tokens(settings.api_token, settings.api_tokens_file)
        self.stored_tokens = StoredTokens(engine, clock)
        self.streams = ConcurrencyLimit("stream_ops", settings.max_concurrent_stream_ops)
        self.rotations = ConcurrencyLimit("admin_rotate", 1)
        self.pending_claims = PendingClaims(engine)
        self._engines: dict[str, LocalEngineProtocol] = {}
        self.background: set[asyncio.Task[object]] = set()
        self.stopping = asyncio.Event()

    def engine_for(self, namespace: str | None) -> LocalEngineProtocol:
        if namespace is None:
            return self.engine
        found = self._engines.get(namespace)
        if found is None:
            if len(self._engines) >= MAX_ENGINES:
                self._engines.pop(next(iter(self._engines)))
            found = self._engines[namespace] = self.engine.in_namespace(namespace)
        return found

    def configured_caller(self, header: str | None) -> Caller | None:
        """The caller by the configured tokens. Without any, a token of the store is still checked:
        a revoked one must not become a caller with every role.
        """
        if self.tokens:
            return self.tokens.caller(header)
        return ANONYMOUS if stored_token_in(header) is None else None

    async def caller(self, header: str | None) -> Caller | None:
        found, token = self.configured_caller(header), stored_token_in(header)
        return await self.stored_tokens.caller(token) if found is None and token else found

    @property
    def is_draining(self) -> bool:
        return self.stopping.is_set()

    def drain(self) -> None:
        """Report not ready, refuse new stream operations and answer waiting requests with 503."""
        self.stopping.set()
        self.streams.close()

    async def finish_background(self, timeout_s: float) -> None:
        await self.stored_tokens.close(timeout_s)
        if self.background:
            _, late = await asyncio.wait(tuple(self.background), timeout=timeout_s)
            for task in late:
                task.cancel()

    def run_in_background(self, work: Coroutine[object, object, object]) -> None:
        """Run work that outlives its request; shutdown waits for it."""
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)


def build(server: Server) -> ASGIApp:
    by_path: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    if server.settings.metrics_open:  # scrapers send no token
        scraped = by_path["/metrics"]
        scraped["GET"] = structs.replace(scraped["GET"], role=None, bound=Bound.FREE)
    endpoints = {path: Endpoint(server, path, methods) for path, methods in by_path.items()}
    paths = [Path(path, endpoint) for path, endpoint in endpoints.items()]
    unknown = Path("/{path:path}", Endpoint(server, "unknown", {}))
    return _PathRouter(endpoints, Starlette(routes=[*paths, unknown]))


class _PathRouter:
    """Looks up paths without parameters in a dictionary and matches only the others in turn.

    Matching uses the raw path: a parameter may contain a slash, written as %2F. Parameters are
    decoded after matching.
    """

    def __init__(self, endpoints: dict[str, Endpoint], rest: Starlette) -> None:
        self._exact = {path: endpoint for path, endpoint in endpoints.items() if "{" not in path}
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "raw_path" in scope:
            scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        found = self._exact.get(scope["path"]) if scope["type"] == "http" else None
        await (self._rest if found is None else found)(scope, receive, send)
