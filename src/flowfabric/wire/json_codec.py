"""Python values as JSON and back, by type hint.

Bytes are base64, ids are strings, and members of a union of structs have a `type`.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Struct

from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.wire.errors import as_error, problem_of

Read = Callable[[object], object]
_UNIONS = (Union, types.UnionType)


def _encode_hook(value: object) -> object:
    if isinstance(value, ExecutionId):
        return str(value)
    if isinstance(value, EngineError):
        return problem_of(value)
    if isinstance(value, Exception):
        return {"code": "internal", "detail": type(value).__name__}
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _decode_hook(kind: type, value: object) -> object:
    if kind is ExecutionId:
        if not isinstance(value, str):
            raise ValueError(f"an execution id is text, got {type(value).__name__}")
        return ExecutionId(value)
    if kind is EngineError:
        return as_error(value)
    if kind is object:
        return value
    raise TypeError(f"{kind!r} cannot be received")


encode = msgspec.json.Encoder(enc_hook=_encode_hook).encode


@cache
def decoder(hint: object) -> Callable[[bytes], object]:
    """The decoder of a request or response body."""
    shape = shape_of(hint)
    decode = msgspec.json.Decoder(shape.wire, dec_hook=_decode_hook).decode
    if shape.fix is None:
        return decode
    fix = shape.fix
    return lambda body: fix(decode(body))


class Shape(NamedTuple):
    """The type that msgspec decodes for a hint, and the conversion to the hint's own type.

    Unions that msgspec cannot distinguish are decoded as Any.
    """

    wire: Any
    fix: Read | None


@cache
def shape_of(hint: object) -> Shape:
    if _is_plain(hint):
        return Shape(hint, None)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in _UNIONS:
        return Shape(Any, _union(parts))
    if origin in (list, tuple, Sequence, Iterable, frozenset, set, AbstractSet):
        wire, fix = shape_of(parts[0])
        fix_all = None if fix is None else lambda items: [fix(item) for item in items]
        return Shape(list[wire], fix_all)  # type: ignore[valid-type]
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _struct(hint)
    raise TypeError(f"{hint!r} cannot be received")


def _is_plain(hint: object) -> bool:
    try:
        msgspec.json.Decoder(hint, dec_hook=_decode_hook)
    except TypeError:
        return False
    return True


def _struct(kind: type[Struct]) -> Shape:
    """A struct with the same fields that msgspec can decode, and the conversion to `kind`."""
    hints = get_type_hints(kind)
    shapes = {field.name: shape_of(hints[field.name]) for field in msgspec.structs.fields(kind)}
    fields: list[Any] = []
    for field in msgspec.structs.fields(kind):
        default = (
            ()
            if field.required
            else (field.default if field.default_factory is NODEFAULT else field.default_factory(),)
        )
        fields.append((field.name, shapes[field.name].wire, *default))
    decodable = msgspec.defstruct(kind.__name__, fields, kw_only=True)
    fixes = [(name, shape.fix) for name, shape in shapes.items() if shape.fix is not None]
    names = tuple(shapes)

    def fix(read: object) -> object:
        values = {name: getattr(read, name) for name in names}
        for name, convert in fixes:
            try:
                values[name] = convert(values[name])
            except msgspec.ValidationError as error:
                raise msgspec.ValidationError(f"{name}: {error}") from None
        return kind(**values)

    return Shape(decodable, fix)


def _union(kinds: tuple[object, ...]) -> Read:
    """Strings and free-form objects stay as they are; structs are distinguished by `type`."""
    structs = {
        k.__struct_config__.tag: k for k in kinds if isinstance(k, type) and issubclass(k, Struct)
    }
    may_fail = any(isinstance(k, type) and issubclass(k, Exception) for k in kinds)
    free = any(k in (dict, Mapping) or get_origin(k) in (dict, Mapping) for k in kinds)
    others = tuple(
        k
        for k in kinds
        if k is not type(None) and not (isinstance(k, type) and issubclass(k, (Struct, Exception)))
    )

    def read(value: object) -> object:
        if (
            (value is None and type(None) in kinds)
            or (isinstance(value, dict) and free)
            or (isinstance(value, str) and str in kinds)
        ):
            return value
        if isinstance(value, kinds_given):
            return value
        if isinstance(value, dict):
            found = structs.get(value.get("type"))
            if found is not None:
                return msgspec.convert(value, found, dec_hook=_decode_hook)
            if may_fail:
                return as_error(value)
        for kind in others:
            try:
                return msgspec.convert(value, kind, dec_hook=_decode_hook)
            except (msgspec.ValidationError, ValueError, TypeError):
                continue
        raise msgspec.ValidationError(
            f"got {type(value).__name__}, which is not one of the accepted types"
        )

    kinds_given = tuple(structs.values()) + tuple(k for k in others if isinstance(k, type))
    return read
