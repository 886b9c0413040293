"""What a flow says of itself in its own fields: they are one JSON object, with its tags among
them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.model.flow import Flow


def fields_of(flow: Flow) -> dict[str, Any]:
    """The flow's own fields and its tags."""
    try:
        found = json.loads(flow.raw_fields)
    except ValueError as error:
        raise ValidationError(
            ValidationKind.CORRUPTION, f"flow_core: raw_fields not valid JSON: {error}"
        ) from None
    if not isinstance(found, dict):
        raise ValidationError(
            ValidationKind.CORRUPTION,
            "flow_core: raw_fields not valid JSON: an object was expected",
        )
    return found


def namespace_of(flow: Flow) -> str:
    return str(fields_of(flow).get("namespace", "default"))


def encode_fields(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def number_in(fields: Mapping[str, Any], name: str, default: int = 0) -> int:
    """A count, as a number or as its digits."""
    found = fields.get(name, default)
    return (
        int(found)
        if isinstance(found, int) or (isinstance(found, str) and found.isdecimal())
        else default
    )


def detached_of(flow: Flow) -> frozenset[UUID]:
    """Children that outlive their parent."""
    return frozenset(UUID(text) for text in fields_of(flow).get("detached", ()))
