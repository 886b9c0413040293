"""Whether a JSON schema is one that `payload_schema` can apply: the shape of its keywords."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flowfabric.rules.waits import pattern
from flowfabric.rules.waits.payload_schema import MAX_DEPTH, TYPES

MAX_PARTS = 10_000
MAX_PATTERN_CHARS = 1_000
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "$defs")
_SINGLE = ("items", "additionalProperties", "propertyNames")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SIZES = tuple(f"{end}{what}" for end in ("min", "max") for what in ("Length", "Items"))
_PROPERTY_SIZES = ("minProperties", "maxProperties")
Schema = Mapping[str, Any]


class _Flaw(Exception):
    pass


def flaw(schema: object) -> str | None:
    """The first keyword that cannot be applied, with what it accepts, or None."""
    left = MAX_PARTS
    todo: list[tuple[object, str, int]] = [(schema, "", 0)]
    if not isinstance(schema, Mapping):
        return "an object is accepted"
    defs = schema.get("$defs", {})
    try:
        while todo:
            part, at, depth = todo.pop()
            left -= 1
            if left < 0 or depth > MAX_DEPTH:
                raise _Flaw("too many parts, or nested too deeply")
            todo += _parts(part, at, depth + 1)
            if isinstance(part, Mapping):
                _check(part, at, defs)
    except _Flaw as error:
        return str(error)
    return None


def _parts(part: object, at: str, depth: int) -> Iterator[tuple[object, str, int]]:
    """The schemas inside a schema."""
    if isinstance(part, bool):
        return
    if not isinstance(part, Mapping):
        raise _Flaw(f"{at}: a schema is accepted")
    for word in _LISTS:
        for index, each in enumerate(_is(part, word, list, "a list of schemas", at, [])):
            yield each, f"{at}/{word}/{index}", depth
    for word in _MAPS:
        for name, each in _is(part, word, Mapping, "schemas by name", at, {}).items():
            yield each, f"{at}/{word}/{name[:80]}", depth
    for word in _SINGLE:
        if word in part:
            yield part[word], f"{at}/{word}", depth


def _is(part: Schema, word: str, kind: type, accepted: str, at: str, default: object) -> Any:
    value = part.get(word, default)
    if not isinstance(value, kind):
        raise _Flaw(f"{at}/{word}: {accepted}")
    return value


def _check(part: Schema, at: str, defs: object) -> None:
    for word, (holds, accepted) in _WORDS.items():
        if word in part and not holds(part[word]):
            raise _Flaw(f"{at}/{word}: {accepted}")
    if "$ref" in part:
        _check_ref(part["$ref"], at, defs)


def _check_ref(ref: object, at: str, defs: object) -> None:
    prefix, _, name = str(ref).rpartition("/")
    if not isinstance(ref, str) or prefix != "#/$defs" or not isinstance(defs, Mapping):
        raise _Flaw(f"{at}/$ref: the form #/$defs/NAME is accepted")
    if name not in defs:
        raise _Flaw(f"{at}/$ref: {name[:80]!r} is not in $defs")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_pattern(value: object) -> bool:
    if not isinstance(value, str) or len(value) > MAX_PATTERN_CHARS:
        return False
    try:
        pattern.compiled(value)
    except pattern.Unsupported:
        return False
    return True


def _is_kind(value: object) -> bool:
    kinds = value if isinstance(value, list) else [value]
    return all(isinstance(kind, str) and kind in TYPES for kind in kinds)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_NUMBER = (_is_number, "a number is accepted")
_SIZE = (_is_size, "a whole number from 0 is accepted")
_WORDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "type": (_is_kind, f"one of {', '.join(TYPES)}, or a list of them"),
    "required": (_is_texts, "a list of names is accepted"),
    "enum": (lambda value: isinstance(value, list), "a list of values is accepted"),
    "format": (lambda value: isinstance(value, str), "text is accepted"),
    "pattern": (
        _is_pattern,
        f"a regular expression of at most {MAX_PATTERN_CHARS} characters is accepted, without "
        "back references, lookaround and flags, and with at most a few thousand repeated parts",
    ),
    "multipleOf": (
        lambda value: _is_number(value) and float(str(value)) > 0,
        "a number above 0 is accepted",
    ),
    **dict.fromkeys(_NUMBERS, _NUMBER),
    **dict.fromkeys((*_SIZES, *_PROPERTY_SIZES), _SIZE),
}
