"""HTTP responses: replies of handlers, and refusals as problem+json."""

from __future__ import annotations

import logging
from http import HTTPStatus

from msgspec import structs
from starlette.responses import Response, StreamingResponse

from flowfabric.errors import EngineError, ValidationError
from flowfabric.server.route import MissingEntity, Reply, Route, Undo
from flowfabric.wire.errors import MEDIA_TYPE, Problem, problem_of
from flowfabric.wire.json_codec import encode

log = logging.getLogger("flowfabric.server")


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


def stopping() -> Response:
    given = {"backend": "server", "detail": "it is stopping; retry", "kind": "transport"}
    return problem(
        503, "the server is stopping; retry", retryable=True, raised="TransportError", given=given
    )


def too_large(route: Route) -> Response:
    return problem(
        413,
        "payload_too_large",
        code="payload_too_large",
        limit_bytes=route.limit,
        route=route.path,
    )


def bad_json(status: int, detail: str | None = None) -> Response:
    return problem(
        status, f"invalid JSON: {HTTPStatus(status).phrase}", code="invalid_json", detail=detail
    )
