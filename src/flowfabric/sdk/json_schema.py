"""JSON schemas of Python types, by which the engine checks payloads it does not decode."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from flowfabric.rules.waits.payload_schema import MAX_SCHEMA_BYTES
from flowfabric.rules.waits.schema_form import flaw
from flowfabric.sdk.exceptions import PayloadError

log = logging.getLogger("flowfabric.worker")

JsonSchema = dict[str, Any]


def schema_of(kind: object, where: str) -> JsonSchema | None:
    """The schema of a type; None if any JSON is accepted, or if the value is no JSON."""
    if kind is Any or kind is bytes:
        return None
    models = _Models()
    try:
        made = msgspec.json.schema(kind, schema_hook=models.schema)
    except (TypeError, ValueError, NameError) as error:
        raise PayloadError(f"{where}: {error}") from None
    found = models.definitions
    return {**made, "$defs": {**made.get("$defs", {}), **found}} if found else made


def arguments_schema(kind: type[msgspec.Struct], defaults: Mapping[str, object]) -> JsonSchema:
    """The schema of a struct of arguments, with defaults that JSON can carry."""
    made = schema_of(kind, "arguments") or {}
    defs = dict(made.get("$defs", {}))
    top: JsonSchema = defs.pop(str(made.get("$ref", "")).rpartition("/")[2], {})
    stated = {name: value for name, given in defaults.items() if (value := _plain(given))}
    properties = {
        name: {**each, "default": stated[name][0]} if name in stated else each
        for name, each in top.get("properties", {}).items()
    }
    found = {name: value for name, value in top.items() if name != "title"}
    found |= {"properties": properties}
    return {**found, "$defs": defs} if defs else found


def usable(make: Callable[[], JsonSchema | None]) -> JsonSchema | None:
    """The schema if the engine can apply it; else None, and the worker alone checks the values."""
    try:
        made = make()
        size = len(msgspec.json.encode(made))
    except (PayloadError, TypeError, ValueError, RecursionError) as error:
        log.info("a type has no JSON schema", extra={"reason": str(error)})
        return None
    wrong = None if made is None else flaw(made)
    if size <= MAX_SCHEMA_BYTES and wrong is None:
        return made
    reason = wrong or f"{size} bytes, at most {MAX_SCHEMA_BYTES} are stored"
    log.info("a JSON schema is left out", extra={"reason": reason})
    return None


class _Models:
    """The definitions inside pydantic models, each under a name that no other type has."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._prefixes: dict[type, str] = {}

    def schema(self, kind: type) -> JsonSchema:
        if not hasattr(kind, "model_json_schema"):
            return {}
        prefix = self._prefix(kind)
        made = dict(kind.model_json_schema(ref_template=f"#/$defs/{prefix}{{model}}"))
        inner = made.pop("$defs", {})
        self.definitions |= {f"{prefix}{name}": each for name, each in inner.items()}
        return made

    def _prefix(self, kind: type) -> str:
        """Without the module, which is another one when the program is the main module."""
        same = sum(each.__qualname__ == kind.__qualname__ for each in self._prefixes)
        number = f"{same + 1}." if same else ""
        return self._prefixes.setdefault(kind, f"{kind.__qualname__}.{number}")


def _plain(value: object) -> tuple[object] | None:
    """The value as JSON carries it, or None if it does not."""
    try:
        return (msgspec.json.decode(msgspec.json.encode(value, order="deterministic")),)
    except (TypeError, ValueError, RecursionError):
        return None
