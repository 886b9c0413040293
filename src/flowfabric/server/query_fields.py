"""The fields of a query string: one text for each, or a list for a field that takes several."""

from __future__ import annotations

from functools import cache
from typing import get_origin, get_type_hints

from starlette.datastructures import QueryParams


def query_fields(kind: type, given: QueryParams) -> dict[str, object]:
    """Several values are given by repeating the field, or separated by commas."""
    fields: dict[str, object] = dict(given)
    for name in list_fields(kind) & fields.keys():
        parts = (part.strip() for text in given.getlist(name) for part in text.split(","))
        fields[name] = [part for part in parts if part]
    return fields


@cache
def list_fields(kind: type) -> frozenset[str]:
    hints = get_type_hints(kind)
    return frozenset(name for name, hint in hints.items() if get_origin(hint) is list)
