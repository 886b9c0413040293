"""The fields of a flow: one JSON object that contains its own fields and its tags."""

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
        if not isinstance(found, dict):
            raise ValueError("an object was expected")
    except ValueError as error:
        detail = f"flow_core: raw_fields not valid JSON: {error}"
        raise ValidationError(ValidationKind.CORRUPTION, detail) from None
    return found


def namespace_of(flow: Flow) -> str:
    return str(fields_of(flow).get("namespace", "default"))


def encode_fields(fields: Mapping[str, object]) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def number_in(fields: Mapping[str, object], name: str, default: int = 0) -> int:
    """A count, stored as a number or as its digits."""
    found = fields.get(name, default)
    if isinstance(found, int) or (isinstance(found, str) and found.isdecimal()):
        return int(found)
    return default


def detached_of(flow: Flow) -> frozenset[UUID]:
    """Children that outlive their parent."""
    return frozenset(UUID(text) for text in fields_of(flow).get("detached", ()))
