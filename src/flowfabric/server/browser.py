"""Requests of web pages: CORS headers, and the protection of a server without tokens.

A page can send requests to loopback by a simple form, or by a host name that resolves to loopback
(DNS rebinding). CORS admits no origin unless `FF_CORS_ORIGINS` names it.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from flowfabric.server.config import LOOPBACK, ServerSettings

JSON = "application/json"
_READS = ("GET", "HEAD")


def problem_of(request: Request, settings: ServerSettings) -> tuple[int, str] | None:
    """Status and text of a refusal; None for a request of a local program."""
    given = request.headers.get("host", "")
    if _name_of(given) not in {*LOOPBACK, settings.listen_addr[0]}:
        names = "localhost, 127.0.0.1 or [::1]"
        return (
            403,
            f"Host: {names} while the server has no token, got {given[:80]!r}; "
            "set FF_API_TOKEN to serve other names",
        )
    origin = request.headers.get("origin")
    if origin is not None and not _is_known(origin, given, settings):
        return (
            403,
            f"Origin: pages of {origin[:80]!r} may not call a server without a token; "
            "name it in FF_CORS_ORIGINS",
        )
    if request.method not in _READS and media_of(request) != JSON:
        return 415, f"Content-Type: {JSON} is required for writes while the server has no token"
    return None


def media_of(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _name_of(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).strip("[]").lower()


def _is_known(origin: str, host: str, settings: ServerSettings) -> bool:
    """Whether the origin is this server or one of FF_CORS_ORIGINS."""
    allowed = settings.cors_origins
    return origin in (f"http://{host}", f"https://{host}") or "*" in allowed or origin in allowed


def cors_headers(request: Request, allowed: Sequence[str], *, has_tokens: bool) -> dict[str, str]:
    headers = request.headers
    origin = headers.get("origin")
    if origin is None or not allowed:
        return {}
    if "*" not in allowed and origin not in allowed:
        return {"vary": "Origin"}
    answer = {"access-control-allow-origin": "*" if "*" in allowed else origin, "vary": "Origin"}
    if request.method == "OPTIONS":
        methods = "GET, POST, PUT"
        names = "content-type" + (", authorization" if has_tokens else "")
        if "*" in allowed:
            methods = headers.get("access-control-request-method", methods)
            names = headers.get("access-control-request-headers", names)
        answer |= {"access-control-allow-methods": methods, "access-control-allow-headers": names}
    return answer
