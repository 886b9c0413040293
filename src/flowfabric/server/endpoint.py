"""The pipeline of one request: authenticate, authorize, decode, call the handler, respond."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import nullcontext
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import structs
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from flowfabric.errors import ConfigError, EngineError, ValidationError
from flowfabric.server import browser, default_namespace, tenancy
from flowfabric.server.auth import ANONYMOUS, Caller
from flowfabric.server.http_protocol import mark_authenticated
from flowfabric.server.query_fields import query_fields
from flowfabric.server.route import ApiRequest, InvalidRequest, MissingEntity, Reply, Route, Undo
from flowfabric.server.stored_tokens import while_accepted
from flowfabric.wire.errors import MEDIA_TYPE, Problem, problem_of
from flowfabric.wire.json_codec import decoder, encode

if TYPE_CHECKING:
    from flowfabric.server.app import Server

log = logging.getLogger("flowfabric.server")

FORM = "application/x-www-form-urlencoded"
MAX_FORM_FIELDS = 32
UNAUTHORIZED = "missing or invalid Authorization header"


class Endpoint:
    """All methods of one path, as an ASGI application."""

    def __init__(self, server: Server, path: str, methods: dict[str, Route]) -> None:
        self._server, self._path, self._methods = server, path, methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        started = time.perf_counter()
        server, telemetry = self._server, self._server.telemetry
        try:
            with telemetry.request(request.method, self._path, request.headers):
                response = await self.answer(request)
        except ClientDisconnect:
            return
        if isinstance(response, UndoableResponse) and await request.is_disconnected():
            await response.undo()
            return
        allowed, has_tokens = server.settings.cors_origins, bool(server.tokens)
        response.headers.update(browser.cors_headers(request, allowed, has_tokens=has_tokens))
        await response(scope, receive, send)
        seconds = time.perf_counter() - started
        telemetry.http_request(self._path, request.method, response.status_code, seconds)

    async def answer(self, request: Request) -> Response:
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            return Response(status_code=200)
        route = self._methods.get("GET" if request.method == "HEAD" else request.method)
        try:
            caller = await self._server.caller(request.headers.get("authorization"))
        except EngineError:
            return unavailable("the token cannot be checked: the store does not answer; retry")
        if caller is not None:
            mark_authenticated(request.scope.get("state", {}))
        elif route is None or route.role is not None:
            return unauthorized()
        if route is None:
            return self._unknown(request)
        if route.role is None:
            return await self._handle(route, request, caller or ANONYMOUS)
        if caller is not None and not caller.may(route.role):
            return problem(403, f"this token lacks the role {route.role.value}", code="forbidden")
        if not self._server.tokens:
            refused = browser.problem_of(request, self._server.settings)
            if refused is not None:
                return problem(*refused)
        return await self._handle(route, request, caller or ANONYMOUS)

    def _unknown(self, request: Request) -> Response:
        if not self._methods:
            return problem(404, f"no such path: {request.url.path[:200]}")
        headers = {"allow": ", ".join(sorted(self._methods))}
        return problem(405, f"{request.method} is not allowed for this path", headers=headers)

    async def _handle(self, route: Route, request: Request, caller: Caller) -> Response:
        try:
            call = await self._decode(route, request, caller)
            if caller.namespace is not None or caller.lanes is not None:
                await tenancy.check(route, call)
            with self._server.streams.slot() if route.streams else nullcontext():
                return to_response(self._guarded(await self._reply(route, call, request), caller))
        except ClientDisconnect:
            raise
        except Answered as answered:
            return answered.response
        except InvalidRequest as refused:
            return problem(400, refused.detail, code="invalid_input")
        except EngineError as error:
            return of_error(error)
        except ConfigError as error:
            return problem(400, str(error), code="invalid_input")
        except Exception:
            log.exception("request failed", extra={"method": route.method, "route": route.path})
            text = "the server failed; its log has the details"
            return problem(500, text, code="internal", retryable=False)

    async def _decode(self, route: Route, request: Request, caller: Caller) -> ApiRequest:
        body = await self._body(route, request, caller)
        query = _query(route, request, caller)
        path = {name: unquote(text) for name, text in request.path_params.items()}
        return ApiRequest(self._server, caller, path, query, body, dict(request.headers))

    def _guarded(self, reply: Reply, caller: Caller) -> Reply:
        """A stream ends when the caller's token is revoked."""
        if reply.stream is None or caller.credential is None:
            return reply
        stream = while_accepted(reply.stream, self._server.stored_tokens, caller)
        return structs.replace(reply, stream=stream)

    async def _reply(self, route: Route, call: ApiRequest, request: Request) -> Reply:
        if not route.waits:
            return await route.answer(call)
        working = asyncio.ensure_future(route.answer(call))
        await asyncio.sleep(0)
        if working.done():
            return working.result()
        caller, disconnected = call.caller, asyncio.ensure_future(wait_for_disconnect(request))
        stops = asyncio.ensure_future(self._server.stopping.wait())
        tasks: list[asyncio.Future[Any]] = [working, stops, disconnected]
        refused = None
        if caller.credential is not None:
            refused = asyncio.ensure_future(self._server.stored_tokens.until_refused(caller))
            tasks.append(refused)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            is_refused = refused is not None and refused.done()
            raise Answered(unauthorized() if is_refused else stopping())
        finally:
            for task in tasks:
                task.cancel()

    async def _body(self, route: Route, request: Request, caller: Caller) -> object:
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > route.limit:
            raise Answered(too_large(route))
        if route.body is None:
            return None
        media = browser.media_of(request)
        if media != FORM if route.form else (media != browser.JSON and not media.endswith("+json")):
            raise Answered(bad_json(415))
        raw = await self._read(route, request)
        try:
            data = default_namespace.fill_body(route, raw, caller.namespace)
            return _form(route, data) if route.form else decoder(route.body)(data)
        except msgspec.ValidationError as error:
            raise Answered(bad_json(422, str(error))) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Answered(bad_json(400)) from None

    async def _read(self, route: Route, request: Request) -> bytes:
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._server.settings.slow_client_s):
                async for part in request.stream():
                    size += len(part)
                    if size > route.limit:
                        raise Answered(too_large(route))
                    parts.append(part)
        except TimeoutError:
            raise Answered(problem(408, "the request body took too long to arrive")) from None
        return b"".join(parts)


async def wait_for_disconnect(request: Request) -> None:
    """Return when the client has disconnected. The body has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _form(route: Route, data: bytes) -> object:
    try:
        fields = parse_qsl(data.decode(), max_num_fields=MAX_FORM_FIELDS)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from None
    return msgspec.convert(dict(fields), route.body, strict=False)


def _query(route: Route, request: Request, caller: Caller) -> object:
    if route.query is None:
        return None
    try:
        given = query_fields(route.query, request.query_params)
        fields = default_namespace.fill_query(route, given, caller.namespace)
        return msgspec.convert(fields, route.query, strict=False)
    except msgspec.ValidationError as error:
        raise Answered(problem(400, f"invalid query: {error}", code="invalid_input")) from None


class Answered(Exception):
    """Ends the handling of a request with this response."""

    def __init__(self, response: Response) -> None:
        self.response = response


class UndoableResponse(Response):
    """A response whose effect is undone if the client has disconnected."""

    undo: Undo


def to_response(reply: Reply) -> Response:
    if reply.stream is not None:
        return StreamingResponse(
            reply.stream, reply.status, media_type=reply.media, headers=reply.headers
        )
    if reply.status == 204:
        return Response(status_code=204, headers=reply.headers)
    content = encode(reply.value) if reply.raw is None else reply.raw
    if reply.undo is None:
        return Response(content, reply.status, media_type=reply.media, headers=reply.headers)
    answer = UndoableResponse(content, reply.status, media_type=reply.media, headers=reply.headers)
    answer.undo = reply.undo
    return answer


def of_error(error: EngineError) -> Response:
    problem = problem_of(error)
    if isinstance(error, MissingEntity):
        problem = structs.replace(problem, error=error.message)
    headers = {"retry-after": "1"} if problem.status in (429, 503) else {}
    if problem.status == 500 and not isinstance(error, ValidationError):
        log.warning("request answered with status 500", extra={"error": str(error)})
    return Response(encode(problem), problem.status, media_type=MEDIA_TYPE, headers=headers)


def problem(
    status: int,
    error: str,
    *,
    code: str | None = None,
    headers: dict[str, str] | None = None,
    retryable: bool | None = None,
    **more: object,
) -> Response:
    title = HTTPStatus(status).phrase
    body = Problem(
        status=status,
        title=title,
        error=error,
        code=code or title.lower().replace(" ", "_"),
        retryable=retryable,
        **more,  # type: ignore[arg-type]
    )
    return Response(encode(body), status, media_type=MEDIA_TYPE, headers=headers)


def unauthorized() -> Response:
    return problem(401, UNAUTHORIZED, headers={"www-authenticate": "Bearer"})


def stopping() -> Response:
    return unavailable("the server is stopping; retry")


def unavailable(text: str) -> Response:
    given = {"backend": "server", "detail": text, "kind": "transport"}
    return problem(503, text, retryable=True, raised="TransportError", given=given)


def too_large(route: Route) -> Response:
    name = "payload_too_large"
    return problem(413, name, code=name, limit_bytes=route.limit, route=route.path)


def bad_json(status: int, detail: str | None = None) -> Response:
    text = f"invalid JSON: {HTTPStatus(status).phrase}"
    return problem(status, text, code="invalid_json", detail=detail)
