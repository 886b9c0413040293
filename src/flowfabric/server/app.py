"""From a request to an answer: who asks, how much, what for, and what came of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import structs
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as Path
from starlette.types import ASGIApp

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import ConfigError, EngineError, NotFound, ValidationError
from flowfabric.server import local, ownership, tenancy
from flowfabric.server.auth import ANYBODY, Caller, Tokens, tokens_of
from flowfabric.server.concurrency import Permits
from flowfabric.server.config import ServerSettings
from flowfabric.server.connection_limits import vouch
from flowfabric.server.pending_claims import Waits
from flowfabric.server.route import Ask, Missing, Refusal, Reply, Route, Undo
from flowfabric.server.route_list import ROUTES, opened
from flowfabric.wire.errors import MEDIA_TYPE, Problem, problem_of
from flowfabric.wire.json_codec import decoder, encode

log = logging.getLogger("flowfabric.server")

FORM = "application/x-www-form-urlencoded"
MAX_FORM_FIELDS = 32
UNAUTHORIZED = "missing or invalid Authorization header"


class Observer(Protocol):
    """Told of every request that was answered; what it has gathered is the page of metrics."""

    def http_request(self, route: str, method: str, status: int, seconds: float) -> None: ...

    async def page(self) -> tuple[bytes, str] | None:
        """None where nothing is counted."""

    def request(
        self, method: str, route: str, headers: Mapping[str, str]
    ) -> AbstractContextManager[Any]:
        """Around the answering of a request."""

    def stamp(self, tags: Mapping[str, str]) -> Mapping[str, str]:
        """The tags of what is created in it."""


class Server:
    """What all requests share."""

    def __init__(
        self,
        engine: LocalEngineProtocol,
        settings: ServerSettings,
        *,
        observer: Observer | None = None,
    ) -> None:
        self.engine, self.settings, self.observer = engine, settings, observer
        self.tokens: Tokens = tokens_of(
            settings.api_token or None, settings.api_tokens_file or None
        )
        self.streams = Permits("stream_ops", settings.max_concurrent_stream_ops)
        self.rotations = Permits("admin_rotate", 1)
        self.namespaces = tenancy.Namespaces(engine)
        self.waits = Waits(engine)
        self.background: set[asyncio.Task[Any]] = set()
        self.stopping = asyncio.Event()

    def caller(self, header: str | None) -> Caller | None:
        return self.tokens.caller(header) if self.tokens else ANYBODY

    def stamp(self, tags: Mapping[str, str]) -> Mapping[str, str]:
        return tags if self.observer is None else self.observer.stamp(tags)

    @property
    def loops_are_running(self) -> bool:
        """An engine without loops of its own leaves them to another process."""
        return bool(getattr(self.engine, "loops_are_running", True))

    @property
    def is_draining(self) -> bool:
        return self.stopping.is_set()

    def drain(self) -> None:
        """From now on it is not ready, and whoever waits is sent away."""
        self.stopping.set()
        self.streams.close()

    async def finish(self, seconds: float) -> None:
        """Waits for what goes on behind answered requests."""
        if self.background:
            _, late = await asyncio.wait(tuple(self.background), timeout=seconds)
            for task in late:
                task.cancel()

    async def metrics_page(self) -> Reply:
        found = None if self.observer is None else await self.observer.page()
        if found is None:
            raise NotFound("metrics")
        text, media = found
        return Reply(200, raw=text, media=media)

    def begin(self, work: Any) -> None:
        """Something that goes on after its request was answered, and that the server waits for when it stops."""
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)


def build(server: Server, routes: tuple[Route, ...] = ROUTES) -> ASGIApp:
    by_path: dict[str, dict[str, Route]] = {}
    for route in opened(routes) if server.settings.metrics_open else routes:
        by_path.setdefault(route.path, {})[route.method] = route
    endpoints = {path: _Endpoint(server, path, methods) for path, methods in by_path.items()}
    unknown = Path("/{path:path}", _Endpoint(server, "unknown", {}))
    return _Exact(
        endpoints,
        Starlette(
            routes=[*(Path(path, endpoint) for path, endpoint in endpoints.items()), unknown]
        ),
    )


class _Exact:
    """Paths without parameters are looked up; only the others are matched one after the other.

    They are matched as they were sent: a parameter may have a slash in it, written as %2F. Each is decoded by itself, afterwards.
    """

    def __init__(self, endpoints: dict[str, _Endpoint], rest: Starlette) -> None:
        self._exact = {path: endpoint for path, endpoint in endpoints.items() if "{" not in path}
        self._rest = rest

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if "raw_path" in scope:
            scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        found = self._exact.get(scope["path"]) if scope["type"] == "http" else None
        await (self._rest if found is None else found)(scope, receive, send)


class _Endpoint:
    """All methods of one path, as an ASGI application."""

    def __init__(self, server: Server, path: str, methods: dict[str, Route]) -> None:
        self._server, self._path, self._methods = server, path, methods

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        began = time.perf_counter()
        observer = self._server.observer
        try:
            with (
                nullcontext()
                if observer is None
                else observer.request(request.method, self._path, request.headers)
            ):
                response = await self._answer(request)
        except ClientDisconnect:
            return
        if isinstance(response, _Answer) and await request.is_disconnected():
            await response.undo()
            return
        response.headers.update(self._cors(request))
        await response(scope, receive, send)
        if observer is not None:
            observer.http_request(
                self._path, request.method, response.status_code, time.perf_counter() - began
            )

    async def _answer(self, request: Request) -> Response:
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            return Response(status_code=200)
        method = (
            "GET" if request.method == "HEAD" and "HEAD" not in self._methods else request.method
        )
        route = self._methods.get(method)
        caller = self._server.caller(request.headers.get("authorization"))
        if caller is not None:
            vouch(request.scope)
        elif route is None or route.role is not None:
            return _problem(401, UNAUTHORIZED, headers={"www-authenticate": "Bearer"})
        if route is None:
            if not self._methods:
                return _problem(404, f"no such path: {request.url.path[:200]}")
            return _problem(
                405,
                f"{request.method} is not for this path",
                headers={"allow": ", ".join(sorted(self._methods))},
            )
        if route.role is not None and caller is not None and not caller.may(route.role):
            return _problem(
                403, f"this token may not: the role {route.role.value} is needed", code="forbidden"
            )
        refused = (
            None
            if self._server.tokens or route.role is None
            else local.problem_of(request, self._server.settings)
        )
        if refused is not None:
            return _problem(*refused)
        return await self._handled(route, request, caller or ANYBODY)

    async def _handled(self, route: Route, request: Request, caller: Caller) -> Response:
        try:
            body = await self._body(route, request, caller)
            query = _query(route, request, caller)
            ask = Ask(
                self._server,
                caller,
                {name: unquote(text) for name, text in request.path_params.items()},
                query,
                body,
                dict(request.headers),
            )
            if caller.namespace is not None or caller.lanes is not None:
                await tenancy.check(route, ask)
            with self._server.streams.one() if route.streams else nullcontext():
                return _response(
                    await (
                        self._unless_stopping(route, ask, request)
                        if route.waits
                        else route.handler(ask)
                    )
                )
        except ClientDisconnect:
            raise
        except _Answered as answered:
            return answered.response
        except Refusal as refused:
            return _problem(400, refused.detail, code="invalid_input")
        except EngineError as error:
            return _failed(error)
        except ConfigError as error:
            return _problem(400, str(error), code="invalid_input")
        except Exception:
            log.exception("%s %s failed", route.method, route.path)
            return _problem(
                500, "the server failed; its log says why", code="internal", retryable=False
            )

    async def _unless_stopping(self, route: Route, ask: Ask, request: Request) -> Reply:
        working = asyncio.ensure_future(route.handler(ask))
        await asyncio.sleep(0)
        if working.done():
            return working.result()
        stopping, gone = (
            asyncio.ensure_future(self._server.stopping.wait()),
            asyncio.ensure_future(_gone(request)),
        )
        tasks = (working, stopping, gone)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            raise _Answered(_stopping())
        finally:
            for task in tasks:
                task.cancel()

    async def _body(self, route: Route, request: Request, caller: Caller) -> Any:
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > route.limit:
            raise _Answered(_too_large(route))
        if route.body is None:
            return None
        media = local.media_of(request)
        if media != FORM if route.form else (media != local.JSON and not media.endswith("+json")):
            raise _Answered(_bad_json(415))
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._server.settings.slow_client_s):
                async for part in request.stream():
                    size += len(part)
                    if size > route.limit:
                        raise _Answered(_too_large(route))
                    parts.append(part)
        except TimeoutError:
            raise _Answered(_problem(408, "the request took too long to arrive")) from None
        try:
            data = ownership.body_of(route, b"".join(parts), caller.namespace)
            return _form(route, data) if route.form else decoder(route.body)(data)
        except msgspec.ValidationError as error:
            raise _Answered(_bad_json(422, str(error))) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise _Answered(_bad_json(400)) from None

    def _cors(self, request: Request) -> dict[str, str]:
        """Closed unless opened by name."""
        allowed, origin = self._server.settings.cors_origins, request.headers.get("origin")
        if origin is None or not allowed:
            return {}
        if "*" not in allowed and origin not in allowed:
            return {"vary": "Origin"}
        headers = {
            "access-control-allow-origin": "*" if "*" in allowed else origin,
            "vary": "Origin",
        }
        if request.method == "OPTIONS":
            methods, names = (
                "GET, POST, PUT",
                "content-type" + (", authorization" if self._server.tokens else ""),
            )
            if "*" in allowed:
                methods = request.headers.get("access-control-request-method", methods)
                names = request.headers.get("access-control-request-headers", names)
            headers |= {
                "access-control-allow-methods": methods,
                "access-control-allow-headers": names,
            }
        return headers


class _Answered(Exception):
    def __init__(self, response: Response) -> None:
        self.response = response


class _Answer(Response):
    """One that is taken back when nobody is there to read it."""

    undo: Undo


async def _gone(request: Request) -> None:
    """Returns when the client has left. Its body was read before; what comes now can only be that."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _form(route: Route, data: bytes) -> Any:
    try:
        fields = parse_qsl(data.decode(), max_num_fields=MAX_FORM_FIELDS)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from None
    return msgspec.convert(dict(fields), route.body, strict=False)


def _query(route: Route, request: Request, caller: Caller) -> Any:
    if route.query is None:
        return None
    try:
        return msgspec.convert(
            ownership.query_of(route, request.query_params, caller.namespace),
            route.query,
            strict=False,
        )
    except msgspec.ValidationError as error:
        raise _Answered(_problem(400, f"invalid query: {error}", code="invalid_input")) from None


def _response(reply: Reply) -> Response:
    if reply.stream is not None:
        return StreamingResponse(
            reply.stream, reply.status, media_type=reply.media, headers=reply.headers
        )
    if reply.status == 204:
        return Response(status_code=204, headers=reply.headers)
    content = encode(reply.value) if reply.raw is None else reply.raw
    if reply.undo is None:
        return Response(content, reply.status, media_type=reply.media, headers=reply.headers)
    answer = _Answer(content, reply.status, media_type=reply.media, headers=reply.headers)
    answer.undo = reply.undo
    return answer


def _failed(error: EngineError) -> Response:
    problem = problem_of(error)
    if isinstance(error, Missing):
        problem = structs.replace(problem, error=error.said)
    headers = {"retry-after": "1"} if problem.status in (429, 503) else {}
    if problem.status == 500 and not isinstance(error, ValidationError):
        log.warning("answered 500: %s", error)
    return Response(encode(problem), problem.status, media_type=MEDIA_TYPE, headers=headers)


def _problem(
    status: int,
    error: str,
    *,
    code: str | None = None,
    headers: dict[str, str] | None = None,
    retryable: bool | None = None,
    **more: Any,
) -> Response:
    title = HTTPStatus(status).phrase
    said = Problem(
        status=status,
        title=title,
        error=error,
        code=code or title.lower().replace(" ", "_"),
        retryable=retryable,
        **more,
    )
    return Response(encode(said), status, media_type=MEDIA_TYPE, headers=headers)


def _stopping() -> Response:
    given = {"backend": "server", "detail": "it is stopping; ask again", "kind": "transport"}
    return _problem(
        503,
        "the server is stopping; ask again",
        retryable=True,
        raised="TransportError",
        given=given,
    )


def _too_large(route: Route) -> Response:
    return _problem(
        413,
        "payload_too_large",
        code="payload_too_large",
        limit_bytes=route.limit,
        route=route.path,
    )


def _bad_json(status: int, detail: str | None = None) -> Response:
    return _problem(
        status, f"invalid JSON: {HTTPStatus(status).phrase}", code="invalid_json", detail=detail
    )
