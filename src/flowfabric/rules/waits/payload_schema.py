"""Checks a payload by the part of JSON Schema that describes Python types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from flowfabric.rules.waits import pattern

MAX_SCHEMA_BYTES = 16_384
MAX_STEPS = 50_000
MAX_DEPTH = 64
MAX_MATCH_STEPS = 200_000
"""Of all patterns of a payload: they are searched in the process that serves other callers too."""
_FORMATS: dict[str, type] = {
    "uuid": UUID,
    "date-time": datetime,
    "date": date,
    "time": time,
    "duration": timedelta,
    "decimal": Decimal,
}
TYPES: dict[str, Callable[[object], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


_CHOICES, _NULL = ("anyOf", "oneOf"), {"type": "null"}
MAX_SHOWN_NAMES = 20


class _Mismatch(Exception):
    pass


def mismatch(schema: str, payload: bytes | None) -> str | None:
    """The first difference from the schema, or None. A missing payload counts as null."""
    try:
        value = None if payload is None else msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return "payload: JSON is expected"
    return difference(msgspec.json.decode(schema), value, "payload")


def difference(schema: Mapping[str, Any], value: object, at: str) -> str | None:
    """The first difference of a decoded value from the schema. `at` names the value."""
    try:
        _Check(schema.get("$defs", {})).check(schema, value, at, 0)
    except _Mismatch as error:
        return str(error)
    return None


class _Check:
    """A bounded check: a schema that needs too many steps refuses the payload."""

    def __init__(self, defs: Mapping[str, Any]) -> None:
        self._defs, self._left, self._match_steps = defs, MAX_STEPS, MAX_MATCH_STEPS

    def check(self, schema: object, value: object, at: str, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            raise _Mismatch(f"{at}: nested too deeply to be checked")
        if schema is False:
            raise _Mismatch(f"{at}: nothing is accepted here")
        if not isinstance(schema, Mapping):
            return
        if "$ref" in schema:
            target = self._defs.get(schema["$ref"].rpartition("/")[2], False)
            self.check(target, value, at, depth + 1)
        for each in schema.get("allOf", ()):
            self.check(each, value, at, depth + 1)
        for word in _CHOICES:
            if word in schema:
                self._check_choice(schema[word], value, at, depth + 1)
        _check_kind(schema, value, at)
        if isinstance(value, str):
            self._check_text(schema, value, at)
        elif isinstance(value, list):
            self._check_list(schema, value, at, depth)
        elif isinstance(value, dict):
            self._check_object(schema, value, at, depth)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            _check_number(schema, value, at)

    def _check_text(self, schema: Mapping[str, Any], value: str, at: str) -> None:
        _check_size(schema, len(value), "Length", at)
        if "pattern" in schema:
            self._check_pattern(schema["pattern"], value, at)
        _check_format(schema, value, at)

    def _check_pattern(self, wanted: str, value: str, at: str) -> None:
        try:
            made = pattern.compiled(wanted)
        except pattern.Unsupported:  # declared by an earlier release
            raise _Mismatch(f"{at}: the pattern {wanted!r:.80} cannot be applied") from None
        found, self._match_steps = pattern.search(made, value, self._match_steps)
        if found is None:
            raise _Mismatch(f"{at}: too long to be checked by the pattern {wanted!r:.80}")
        if not found:
            raise _Mismatch(f"{at}: text that matches {wanted!r:.80}")

    def _check_choice(self, choices: Sequence[object], value: object, at: str, depth: int) -> None:
        """For a single type or null, the error is that of the type."""
        own = [each for each in choices if each != _NULL]
        if value is not None and len(own) == 1:
            self.check(own[0], value, at, depth)
        elif not any(self._fits(each, value, at, depth) for each in choices):
            raise _Mismatch(f"{at}: none of the accepted forms, got {_shown(value)}")

    def _fits(self, schema: object, value: object, at: str, depth: int) -> bool:
        try:
            self.check(schema, value, at, depth)
        except _Mismatch:
            return False
        return True

    def _check_list(
        self, schema: Mapping[str, Any], value: Sequence[Any], at: str, depth: int
    ) -> None:
        _check_size(schema, len(value), "Items", at)
        first: Sequence[Any] = schema.get("prefixItems", ())
        for index, each in enumerate(value):
            inner = first[index] if index < len(first) else schema.get("items", True)
            self.check(inner, each, f"{at}[{index}]", depth + 1)

    def _check_object(
        self, schema: Mapping[str, Any], value: Mapping[str, Any], at: str, depth: int
    ) -> None:
        _check_size(schema, len(value), "Properties", at)
        for name in schema.get("required", ()):
            if name not in value:
                raise _Mismatch(f"{at}.{name}: required")
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, each in value.items():
            if others is False and name not in known:
                raise _Mismatch(f"{at}.{name[:80]}: unknown name; {_names(known)}")
            names = schema.get("propertyNames", True)
            self.check(names, name, f"{at}, the name {name[:80]!r}", depth + 1)
            self.check(known.get(name, others), each, f"{at}.{name[:80]}", depth + 1)


def _check_kind(schema: Mapping[str, Any], value: object, at: str) -> None:
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(TYPES[kind](value) for kind in kinds if kind in TYPES):
        raise _Mismatch(f"{at}: {' or '.join(kinds)} is expected, got {_shown(value)}")
    accepted = [schema["const"]] if "const" in schema else schema.get("enum")
    if accepted is not None and not any(
        type(each) is type(value) and each == value for each in accepted
    ):
        raise _Mismatch(f"{at}: one of {', '.join(map(_shown, accepted))}, got {_shown(value)}")


def _check_format(schema: Mapping[str, Any], value: str, at: str) -> None:
    is_base64 = schema.get("contentEncoding") == "base64"
    kind = bytes if is_base64 else _FORMATS.get(schema.get("format", ""))
    if kind is None:
        return
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        expected = schema.get("format", "base64")
        raise _Mismatch(f"{at}: {expected} is expected, got {_shown(value)}") from None


def _check_number(schema: Mapping[str, Any], value: float, at: str) -> None:
    bounds: tuple[tuple[str, Callable[[float], bool]], ...] = (
        ("minimum", lambda most: value >= most),
        ("exclusiveMinimum", lambda most: value > most),
        ("maximum", lambda most: value <= most),
        ("exclusiveMaximum", lambda most: value < most),
        ("multipleOf", lambda most: value % most == 0),
    )
    for name, holds in bounds:
        if name in schema and not holds(schema[name]):
            raise _Mismatch(f"{at}: {name} {schema[name]}, got {_shown(value)}")


def _check_size(schema: Mapping[str, Any], size: int, what: str, at: str) -> None:
    least, most = schema.get(f"min{what}", 0), schema.get(f"max{what}")
    if size < least or (most is not None and size > most):
        accepted = f"at least {least}" if most is None else f"from {least} to {most}"
        raise _Mismatch(f"{at}: {what.lower()} {accepted}, got {size}")


def _names(known: Mapping[str, object]) -> str:
    """The names that an object accepts."""
    shown = ", ".join(sorted(known)[:MAX_SHOWN_NAMES]) or "none"
    return f"accepted: {shown}{', ...' if len(known) > MAX_SHOWN_NAMES else ''}"


def _shown(value: object) -> str:
    return "nothing" if value is None else msgspec.json.encode(value).decode()[:80]
