"""CORS headers: no origin is allowed unless `FF_CORS_ORIGINS` names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def cors_headers(
    method: str, headers: Mapping[str, str], allowed: Sequence[str], *, has_tokens: bool
) -> dict[str, str]:
    origin = headers.get("origin")
    if origin is None or not allowed:
        return {}
    if "*" not in allowed and origin not in allowed:
        return {"vary": "Origin"}
    answer = {"access-control-allow-origin": "*" if "*" in allowed else origin, "vary": "Origin"}
    if method == "OPTIONS":
        methods = "GET, POST, PUT"
        names = "content-type" + (", authorization" if has_tokens else "")
        if "*" in allowed:
            methods = headers.get("access-control-request-method", methods)
            names = headers.get("access-control-request-headers", names)
        answer |= {"access-control-allow-methods": methods, "access-control-allow-headers": names}
    return answer
