"""What a caller that belongs to a namespace leaves unsaid is meant for its own: it is filled in before a request is decoded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import Raw, Struct

from flowfabric.server.route import Route
from flowfabric.wire.operations import Bound

NAMED = frozenset({Bound.NAMESPACE, Bound.LANE, Bound.TURN})
"""Routes that make, ask for or claim something in a namespace."""
FIELD = "namespace"
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(list[Raw]).decode


class Places(Struct, frozen=True):
    """Where a request names a namespace: in itself, and in which of its parts."""

    own: bool
    parts: dict[str, Places]


def body_of(route: Route, data: bytes, namespace: str | None) -> bytes:
    """The same bytes but for the namespaces that were left out. What is no JSON is left to the one who decodes it."""
    if namespace is None or route.bound not in NAMED or route.form:
        return data
    places = places_of(route.body)
    if places is None:
        return data
    try:
        return _filled(data, places, msgspec.json.encode(namespace))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data


def query_of(route: Route, given: Mapping[str, str], namespace: str | None) -> dict[str, str]:
    said = dict(given)
    if (
        namespace is not None
        and route.bound in NAMED
        and FIELD in getattr(route.query, "__struct_fields__", ())
    ):
        said.setdefault(FIELD, namespace)
    return said


def _filled(data: bytes, places: Places, namespace: bytes) -> bytes:
    begins = data.lstrip()[:1]
    if begins == b"[":
        return (
            b"["
            + b",".join(_filled(bytes(each), places, namespace) for each in _items(data))
            + b"]"
        )
    if begins != b"{":
        return data
    found = _fields(data)
    if places.own:
        found.setdefault(FIELD, Raw(namespace))
    for name, inside in places.parts.items():
        if name in found:
            found[name] = Raw(_filled(bytes(found[name]), inside, namespace))
    return msgspec.json.encode(found)


@cache
def places_of(kind: Any) -> Places | None:
    """Of a struct, or of what a list or a union is made of."""
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        return next(
            (found for part in get_args(kind) if (found := places_of(part)) is not None), None
        )
    parts = dict(_parts(kind))
    own = FIELD in kind.__struct_fields__
    return Places(own, parts) if own or parts else None


def _parts(kind: type[Struct]) -> Iterator[tuple[str, Places]]:
    hints = get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        found = places_of(hints[field.name])
        if found is not None:
            yield field.encode_name, found
