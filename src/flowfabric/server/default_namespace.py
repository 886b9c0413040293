"""Fills in the namespace of the caller's token where a request leaves it out, before decoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import get_args, get_type_hints

import msgspec
from msgspec import Raw, Struct

from flowfabric.server.route import Route
from flowfabric.wire.operations import Bound

NAMED = frozenset({Bound.NAMESPACE, Bound.LANE, Bound.TURN})
"""Bounds of routes that create, read or claim in a namespace."""
FIELD = "namespace"
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(list[Raw]).decode


class NamespaceFields(Struct, frozen=True):
    """Where a request names a namespace: in itself (`own`), and in which of its parts."""

    own: bool
    parts: dict[str, NamespaceFields]


def fill_body(route: Route, data: bytes, namespace: str | None) -> bytes:
    """The body with missing namespaces added. Invalid JSON is left for the decoder to refuse."""
    if namespace is None or route.bound not in NAMED or route.form:
        return data
    fields = namespace_fields(route.body)
    if fields is None:
        return data
    try:
        return _fill(data, fields, msgspec.json.encode(namespace))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data


def fill_query(
    route: Route, given: Mapping[str, object], namespace: str | None
) -> dict[str, object]:
    fields = dict(given)
    if (
        namespace is not None
        and route.bound in NAMED
        and FIELD in getattr(route.query, "__struct_fields__", ())
    ):
        fields.setdefault(FIELD, namespace)
    return fields


def _fill(data: bytes, fields: NamespaceFields, namespace: bytes) -> bytes:
    first = data.lstrip()[:1]
    if first == b"[":
        items = (_fill(bytes(each), fields, namespace) for each in _items(data))
        return b"[" + b",".join(items) + b"]"
    if first != b"{":
        return data
    found = _fields(data)
    if fields.own:
        found.setdefault(FIELD, Raw(namespace))
    for name, inner in fields.parts.items():
        if name in found:
            found[name] = Raw(_fill(bytes(found[name]), inner, namespace))
    return msgspec.json.encode(found)


@cache
def namespace_fields(kind: object) -> NamespaceFields | None:
    """The namespace fields of a struct, or of the first struct in a list or union."""
    return _found_in(kind, frozenset())


def _found_in(kind: object, outer: frozenset[object]) -> NamespaceFields | None:
    """A struct inside itself, such as a condition of conditions, is looked at once."""
    if not (isinstance(kind, type) and issubclass(kind, Struct)):
        parts_of = (_found_in(part, outer) for part in get_args(kind))
        return next((found for found in parts_of if found is not None), None)
    if kind in outer:
        return None
    parts = dict(_parts(kind, outer | {kind}))
    own = FIELD in kind.__struct_fields__
    return NamespaceFields(own, parts) if own or parts else None


def _parts(kind: type[Struct], outer: frozenset[object]) -> Iterator[tuple[str, NamespaceFields]]:
    hints = get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        found = _found_in(hints[field.name], outer)
        if found is not None:
            yield field.encode_name, found
