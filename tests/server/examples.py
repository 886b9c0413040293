"""Valid example requests, generated from the types of a route."""

from __future__ import annotations

import types
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID, uuid4

import msgspec
from msgspec import NODEFAULT, Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.lease import Handle
from flowfabric.server.route import Route
from flowfabric.wire.json_codec import encode


class World(Struct, frozen=True):
    """What there is to ask about."""

    execution: ExecutionId
    flow: UUID
    handle: Handle
    namespace: str = "default"
    lane: str = "default"


def request(route: Route, world: World) -> dict[str, Any]:
    """Path, query and body of a call to this route about what is in this world."""
    said: dict[str, Any] = {"path": _path(route, world)}
    query = _fields(route.query, world) if route.query is not None else {}
    if "namespace" in getattr(route.query, "__struct_fields__", ()):
        query["namespace"] = world.namespace
    if "timeout_ms" in getattr(route.query, "__struct_fields__", ()):
        query["timeout_ms"] = 0  # the answer counts here, not the waiting
    if query:
        said["path"] += "?" + "&".join(f"{name}={value}" for name, value in query.items())
    if route.form:
        said["data"] = {"answer": "approved", "who": "tester", "t": "x"}
    elif route.body is not None:
        said["data"] = encode(_fields(route.body, world))
        said["headers"] = {"Content-Type": "application/json"}
    return said


def _path(route: Route, world: World) -> str:
    ident = (
        str(world.flow)
        if route.path.startswith(("/v1/flows", "/v1/budgets", "/v1/bulk"))
        else str(world.execution)
    )
    known = {
        "id": ident,
        "idx": "0",
        "waitpoint_id": str(uuid4()),
        "lane": world.lane,
        "name": "nightly",
        "worker_id": "w1",
    }
    return route.path.format(**known, downstream=str(world.execution))


def _fields(kind: type[Struct], world: World) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=False)
    made = {}
    for field in msgspec.structs.fields(kind):
        needed = field.default is NODEFAULT and field.default_factory is NODEFAULT
        if needed or field.name in ("namespace", "lane_id", "where"):
            made[field.encode_name] = _value(field.name, hints[field.name], world)
    return made


def _value(name: str, hint: Any, world: World) -> Any:
    known: Mapping[str, Any] = {
        "execution_id": world.execution,
        "execution": world.execution,
        "subject": world.execution,
        "flow_id": world.flow,
        "namespace": world.namespace,
        "lane_id": world.lane,
        "lane": world.lane,
        "lanes": [world.lane],
        "handle": world.handle,
        "channel": "completions",
        "signal_name": "go",
        "partition": 0,
        "new_kid": "k9",
        "new_secret_hex": "ab" * 32,
        "lease_ttl_ms": 30_000,
        "grant_ttl_ms": 1_000,
        "opaque": world.handle.opaque,
    }
    if name in known:
        return known[name]
    return _of_type(name, hint, world)


def _of_type(name: str, hint: Any, world: World) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _of_type(name, parts[0], world)
    if origin is Literal:
        return parts[0]
    if origin in (Union, types.UnionType):
        return _of_type(name, parts[0], world)
    if origin in (dict, Mapping):
        return {}
    if origin is tuple:
        return [_value(name, part, world) for part in parts if part is not ...]
    if origin is not None and isinstance(origin, type) and not issubclass(origin, AbstractSet):
        return [_value(name, parts[0], world)]
    plain: dict[Any, Any] = {
        str: "x",
        int: 1,
        bool: True,
        float: 1.0,
        bytes: b"",
        ExecutionId: world.execution,
        Handle: world.handle,
    }
    if hint in plain:
        return plain[hint]
    if hint is UUID:
        return uuid4()
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    if isinstance(hint, type) and issubclass(hint, Struct):
        tag = hint.__struct_config__.tag
        return {**({"type": tag} if tag else {}), **_fields(hint, world)}
    return []
