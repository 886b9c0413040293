"""Python values as JSON and back, by type hint. Bytes are base64, ids are text, answers of several kinds carry a `type`."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId, ExecutionIdError
from flowfabric.wire.errors import as_error, problem_of

Read = Callable[[Any], Any]
_UNIONS = (Union, types.UnionType)


def _plain(value: Any) -> Any:
    if isinstance(value, ExecutionId):
        return str(value)
    if isinstance(value, EngineError):
        return problem_of(value)
    if isinstance(value, Exception):
        return {"code": "internal", "detail": type(value).__name__}
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _rich(kind: Any, value: Any) -> Any:
    if kind is ExecutionId:
        try:
            return ExecutionId(value)
        except (ExecutionIdError, TypeError) as error:
            raise ValueError(str(error)) from None
    if kind is EngineError:
        return as_error(value)
    raise TypeError(f"{kind!r} cannot be received")


encode = msgspec.json.Encoder(enc_hook=_plain).encode


@cache
def decoder(hint: Any) -> Callable[[bytes], Any]:
    """Of a whole body. Types that msgspec cannot tell apart are read piece by piece."""
    if _is_plain(hint):
        return msgspec.json.Decoder(hint, dec_hook=_rich).decode
    read = reader(hint)
    return lambda body: read(msgspec.json.decode(body))


@cache
def reader(hint: Any) -> Read:
    """Of what JSON has become."""
    if _is_plain(hint):
        return lambda value: msgspec.convert(value, hint, dec_hook=_rich)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in _UNIONS:
        return _one_of(parts)
    if origin in (list, tuple, Sequence, Iterable, frozenset, set, AbstractSet):
        each = reader(parts[0])
        return lambda value: [each(item) for item in _expect(value, list, "an array")]
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _struct(hint)
    raise TypeError(f"{hint!r} cannot be received")


def _is_plain(hint: Any) -> bool:
    try:
        msgspec.json.Decoder(hint, dec_hook=_rich)
    except TypeError:
        return False
    return True


def _expect(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        raise msgspec.ValidationError(f"expected {what}, got {type(value).__name__}")
    return value


def _struct(kind: type[Struct]) -> Read:
    hints = get_type_hints(kind)
    parts = {field.encode_name: (field.name, reader(hints[field.name])) for field in msgspec.structs.fields(kind)}

    def read(value: Any) -> Any:
        given = _expect(value, dict, "an object")
        found = {}
        for key, (name, part) in parts.items():
            if key in given:
                try:
                    found[name] = part(given[key])
                except msgspec.ValidationError as error:
                    raise msgspec.ValidationError(f"{key}: {error}") from None
        try:
            return kind(**found)
        except TypeError as error:
            raise msgspec.ValidationError(str(error)) from None

    return read


def _one_of(kinds: tuple[Any, ...]) -> Read:
    """Text of any sort stays text, an object that may be free-form stays one; structs are told apart by their `type`."""
    structs = {k.__struct_config__.tag: reader(k) for k in kinds if isinstance(k, type) and issubclass(k, Struct)}
    may_fail = any(isinstance(k, type) and issubclass(k, Exception) for k in kinds)
    free = any(k is dict or get_origin(k) is dict for k in kinds)
    others = tuple(k for k in kinds if k is not type(None) and not (isinstance(k, type) and issubclass(k, (Struct, Exception))))

    def read(value: Any) -> Any:
        if value is None and type(None) in kinds:
            return None
        if isinstance(value, dict) and not free:
            found = structs.get(value.get("type"))
            if found is not None:
                return found(value)
            if may_fail:
                return as_error(value)
        for kind in others:
            try:
                return value if kind is str and isinstance(value, str) else reader(kind)(value)
            except (msgspec.ValidationError, ValueError):
                continue
        raise msgspec.ValidationError(f"got {type(value).__name__}, which is none of what is accepted")

    return read
