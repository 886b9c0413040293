"""The OpenAPI document and its HTML page, generated from the routes."""

from __future__ import annotations

import inspect
import re
from functools import cache
from html import escape
from importlib.metadata import version

import msgspec
from msgspec import NODEFAULT

from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.server.route import Route
from flowfabric.server.routes import ROUTES
from flowfabric.wire.errors import MEDIA_TYPE, Problem

_DESCRIPTION = "Durable execution over HTTP. Errors are problem+json; `code` is stable."
_PARAMETER = re.compile(r"\{(\w+)\}")
_STATUS = {
    200: "success",
    201: "created",
    204: "nothing to do",
    400: "invalid input",
    401: "missing or invalid token",
    403: "the token lacks the role",
    404: "not found",
    405: "method not allowed for this path",
    408: "the request took too long to arrive",
    409: "the state does not allow it",
    410: "already answered, or expired",
    413: "too large",
    415: "not JSON",
    422: "JSON of the wrong shape",
    429: "too many concurrent requests",
    500: "the store failed",
    503: "temporarily unavailable",
    504: "timed out; retrying is safe",
}


Json = dict[str, object]


def _hook(kind: object) -> Json:
    if kind is ExecutionId:
        return {"type": "string", "pattern": r"^\{fp:[0-9]{1,5}\}:[0-9a-fA-F-]{32,36}$"}
    if isinstance(kind, type) and issubclass(kind, EngineError):
        return {"$ref": "#/components/schemas/Problem"}
    return {}


def _schema(kind: object, components: Json) -> Json:
    """The schema of a type; unions that JSON Schema cannot distinguish accept any value."""
    try:
        (schema,), more = msgspec.json.schema_components(
            [kind], schema_hook=_hook, ref_template="#/components/schemas/{name}"
        )
    except TypeError:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return _by_field(kind, components)
        return {}
    components.update(more)
    return schema


def _is_required(field: msgspec.structs.FieldInfo) -> bool:
    return field.default is NODEFAULT and field.default_factory is NODEFAULT


def _by_field(kind: type[msgspec.Struct], components: Json) -> Json:
    fields = msgspec.structs.fields(kind)
    needed = [field.encode_name for field in fields if _is_required(field)]
    return {
        "type": "object",
        "properties": {field.encode_name: _schema(field.type, components) for field in fields},
        **({"required": needed} if needed else {}),
    }


def _operation(route: Route, components: Json) -> Json:
    description: Json = {
        "operationId": f"{route.method.lower()} {route.path}",
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": _parameters(route, components),
        "responses": _responses(route, components),
        "security": [] if route.role is None else [{"bearer": []}],
    }
    if route.role is not None:
        text = inspect.cleandoc(route.handler.__doc__ or "")
        description["description"] = f"{text}\n\nNeeds the role `{route.role.value}`."
    if route.body is not None:
        media = "application/x-www-form-urlencoded" if route.form else "application/json"
        content = {media: {"schema": _schema(route.body, components)}}
        description["requestBody"] = {"required": True, "content": content}
    return description


def _parameter(name: str, place: str, schema: Json, *, required: bool) -> Json:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _parameters(route: Route, components: Json) -> list[Json]:
    text: Json = {"type": "string"}
    found = [
        _parameter(name, "path", {**text, "minLength": 1}, required=True)
        for name in _PARAMETER.findall(route.path)
    ]
    for field in () if route.query is None else msgspec.structs.fields(route.query):
        schema = _schema(field.type, components)
        required = _is_required(field)
        found.append(_parameter(field.encode_name, "query", schema, required=required))
    if route.media == "text/event-stream":
        found.append(_parameter("Last-Event-ID", "header", text, required=False))
    return found


def _responses(route: Route, components: Json) -> Json:
    description: Json = {}
    for status, kind in route.answers.items():
        content = {route.media: {"schema": {} if kind is None else _schema(kind, components)}}
        description[str(status)] = {
            "description": _STATUS[status],
            **({} if status == 204 else {"content": content}),
        }
    problem = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status in refusals(route):
        description.setdefault(str(status), {"description": _STATUS[status], "content": problem})
    return description


def refusals(route: Route) -> list[int]:
    """The error statuses that a route can answer."""
    found = [400, 404, 413, 429, 500, 503]
    if route.role is not None:
        found += [401, 403]
    if route.body is not None:
        found += [408, 415, 422]
    if route.method != "GET":
        found.append(409)
    if route.path.endswith("rotate-waitpoint-secret"):
        found.append(504)
    return sorted(found)


@cache
def document() -> bytes:
    components: Json = {}
    _schema(Problem, components)
    paths: dict[str, Json] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, components)
    description = {
        "openapi": "3.1.0",
        "info": {
            "title": "FlowFabric",
            "version": version("flowfabric"),
            "description": _DESCRIPTION,
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }
    return msgspec.json.format(msgspec.json.encode(description), indent=1)


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code{font:13px ui-monospace,monospace;background:#8881;padding:.1em .3em;border-radius:.2em}"
    "table{border-collapse:collapse;width:100%}"
    "td{border-top:1px solid #8884;padding:.35rem .5rem;vertical-align:top}"
    "td:first-child{white-space:nowrap}h2{margin-top:2rem}small{color:#888}"
)


@cache
def page() -> bytes:
    """The HTML page, without scripts or external resources."""
    by_tag: dict[str, list[Route]] = {}
    for route in ROUTES:
        by_tag.setdefault(route.tag, []).append(route)
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>FlowFabric API</title><style>{_STYLE}</style>",
        "<h1>FlowFabric API</h1>"
        '<p>The full description is in <a href="/openapi.json">openapi.json</a>.</p>',
    ]
    for tag, routes in by_tag.items():
        parts.append(f"<h2>{escape(tag)}</h2><table>")
        for route in routes:
            role = "open" if route.role is None else route.role.value
            parts.append(
                f"<tr><td><code>{route.method} {escape(route.path)}</code></td>"
                f"<td>{escape(route.summary)} <small>{role}</small></td></tr>"
            )
        parts.append("</table>")
    return "".join(parts).encode()
