"""Arguments and results as JSON: typed by the function's hints, checked before they are stored."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Generic, Protocol, TypeVar, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import msgspec
from msgspec import inspect as kinds

from flowfabric.errors import ConfigError
from flowfabric.rules.workers.task_submission import digest
from flowfabric.sdk.exceptions import PayloadError
from flowfabric.sdk.inputs import Stored
from flowfabric.sdk.json_schema import JsonSchema, arguments_schema, schema_of, usable
from flowfabric.sdk.options import SUBMIT_OPTIONS
from flowfabric.sdk.signature_text import signature_text

RESULTS = "$results"
MAX_PAYLOAD_BYTES = 1_048_576
STORABLE = "use builtins, a dataclass, a TypedDict, a msgspec.Struct or a pydantic model"
CONTEXT_NAMES = ("ctx", "context")
T = TypeVar("T")
_Field = tuple[str, Any] | tuple[str, Any, Any]
"""Name, type and default, as msgspec.defstruct takes them."""
_results: WeakKeyDictionary[Callable[..., object], object] = WeakKeyDictionary()


class Injected:
    """Marks a parameter that the worker fills in from its state, by type."""


State = Annotated[T, Injected]
"""A parameter `llm: State[LlmClient]` receives the object of `Worker(app, state=[LlmClient()])`."""


class Codec(Protocol):
    """Applied to every stored payload, such as encryption or compression. `App(url, codec=...)`."""

    def encode(self, data: bytes) -> bytes: ...

    def decode(self, data: bytes) -> bytes: ...


class Plain:
    """The default codec: stores payloads unchanged."""

    def encode(self, data: bytes) -> bytes:
        return data

    def decode(self, data: bytes) -> bytes:
        return data


def sealed(codec: Codec, data: bytes, where: str) -> bytes:
    try:
        found = codec.encode(data)
    except Exception as error:
        raise PayloadError(
            f"{where}: the codec cannot encode it: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, bytes):
        raise PayloadError(f"{where}: the codec must encode to bytes, got {type(found).__name__}")
    if len(found) > MAX_PAYLOAD_BYTES:
        raise PayloadError(
            f"{where}: {len(found)} bytes, at most {MAX_PAYLOAD_BYTES} are stored; keep it "
            "elsewhere and pass a reference"
        )
    return found


def unsealed(codec: Codec, data: bytes, where: str) -> bytes:
    try:
        return codec.decode(data)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise PayloadError(
            f"{where}: the codec cannot decode what is stored; was it stored with another? {reason}"
        ) from error


def to_json(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=_outward)


def from_json(data: bytes, kind: object) -> Any:
    return msgspec.json.decode(data, type=kind, dec_hook=_inward)


def _canonical(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=_outward, order="deterministic")


def _outward(value: object) -> object:
    """For pydantic models, which are not imported here."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{_named(type(value))} cannot be stored; {STORABLE}")


def _named(kind: object) -> str:
    """A user's class is shown with its module, for there may be several of one name."""
    name, module = getattr(kind, "__qualname__", str(kind)), getattr(kind, "__module__", "builtins")
    return str(name) if module == "builtins" else f"{module}.{name}"


def _inward(kind: type, value: object) -> object:
    return kind.model_validate(value)  # type: ignore[attr-defined]  # the declaration refuses others


class Signature(Generic[T]):
    """The arguments and the result of a task. Raises if one of their types cannot be stored."""

    def __init__(
        self,
        name: str,
        function: Callable[..., object],
        context: type,
        other_context: type,
        mistake: str,
    ) -> None:
        self._name = name
        self._whole = inspect.signature(function)
        hints = _hints(name, function)
        self.context_name: str | None = None
        self.injected: dict[str, type] = {}
        self._fields: list[_Field] = []
        for at, parameter in enumerate(self._whole.parameters.values()):
            hint = hints.get(parameter.name, Any)
            if hint is other_context:
                raise ConfigError(f"task {name}: {parameter.name}: {mistake}")
            if hint is context:
                if at:
                    raise PayloadError(
                        f"task {name}: the Context comes first, before {parameter.name!r}"
                    )
                self.context_name = parameter.name
            elif get_origin(hint) is Annotated and Injected in get_args(hint)[1:]:
                self.injected[parameter.name] = get_args(hint)[0]
            else:
                self._fields.append(self._field(parameter, hint))
        self._taken = [field[0] for field in self._fields]
        self._advice = _advice(self._whole, inspect.iscoroutinefunction(function))
        self._type = msgspec.defstruct(
            "Arguments", self._fields, kw_only=True, forbid_unknown_fields=True
        )
        self._result = hints.get("return", Any)
        check_kind(self._result, f"task {name}: its result")

    def _field(self, parameter: inspect.Parameter, hint: object) -> _Field:
        where = f"task {self._name}: argument {parameter.name!r}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise PayloadError(
                f"{where}: *args and **kwargs have no fixed names; take a list or a dict instead"
            )
        if parameter.name in SUBMIT_OPTIONS:
            raise PayloadError(f"{where} has the name of an option of submit(); rename it")
        check_kind(hint, where)
        if parameter.default is parameter.empty:
            return (parameter.name, hint)
        default = parameter.default
        return (parameter.name, hint, msgspec.field(default_factory=lambda: default))

    def encode(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        results: Callable[[object], Stored | None] | None = None,
    ) -> bytes:
        """The arguments as a JSON object. `results` replaces a value by the runs it stands for."""
        values = self._bound(args, kwargs)
        later = (
            {}
            if results is None
            else {n: found for n, v in values.items() if (found := results(v)) is not None}
        )
        given = {name: value for name, value in values.items() if name not in later}
        try:
            raw = to_json(given)
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(f"task {self._name}: {self._culprit(given)}: {error}") from None
        self._checked(raw, set(later))
        return to_json({**given, RESULTS: later}) if later else raw

    def digest(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
        """Equal for equal arguments, by position or by name, in any order of dicts and sets.

        An argument that equals its default is left out, so that a new parameter with a default
        does not change the digest.
        """
        bound = self._bound(args, kwargs)
        found = self._decoded(_canonical(bound), self._type)
        given = {name: _canonical(getattr(found, name)) for name in sorted(bound)}
        return digest(self._name, given, {name: self._default(name) for name in given})

    def _default(self, name: str) -> bytes | None:
        """An argument's default, if it has one that can be stored."""
        default = self._whole.parameters[name].default
        try:
            return None if default is inspect.Parameter.empty else _canonical(default)
        except (TypeError, ValueError, RecursionError):
            return None

    # ---- for the registry of tasks

    def arguments_schema(self) -> JsonSchema | None:
        """None if the types of the arguments cannot be described."""
        found = (self._whole.parameters[name] for name in self._taken)
        defaults = {each.name: each.default for each in found if each.default is not each.empty}
        return usable(lambda: arguments_schema(self._type, defaults))

    def result_schema(self) -> JsonSchema | None:
        return usable(lambda: schema_of(self._result, "result"))

    def __str__(self) -> str:
        kinds = {field[0]: field[1] for field in self._fields}
        taken = (self._whole.parameters[name] for name in self._taken)
        return signature_text(taken, kinds, self._result)

    def _bound(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Binds by Python's own rules, without the context and the injected parameters."""
        taken = [p for p in self._whole.parameters.values() if p.name in self._taken]
        try:
            return inspect.Signature(taken).bind(*args, **kwargs).arguments
        except TypeError as error:
            raise PayloadError(f"task {self._name}: {error}{self._advice}") from None

    def _checked(self, raw: bytes, later: set[str]) -> None:
        kind = self._type
        if later:
            rest = [(field[0], Any, None) if field[0] in later else field for field in self._fields]
            kind = msgspec.defstruct("Arguments", rest, kw_only=True)
        self._decoded(raw, kind)

    def _decoded(self, raw: bytes, kind: object) -> Any:
        try:
            return from_json(raw, kind)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise PayloadError(f"task {self._name}: {error}") from None
        except ValueError as error:  # of a model with own validators
            raise PayloadError(f"task {self._name}: {' '.join(str(error).split())[:500]}") from None

    def _culprit(self, given: Mapping[str, object]) -> str:
        for name, value in given.items():
            try:
                to_json(value)
            except Exception:
                return f"argument {name!r}"
        return "its arguments"

    def decode(self, data: bytes) -> tuple[dict[str, msgspec.Raw], dict[str, Stored]]:
        """The arguments by name, and those that are results of other runs and still to be read."""
        try:
            raw = msgspec.json.decode(data or b"{}", type=dict[str, msgspec.Raw])
        except msgspec.DecodeError as error:
            raise PayloadError(f"task {self._name}: its input is not an object: {error}") from None
        later = (
            msgspec.json.decode(raw.pop(RESULTS), type=dict[str, Stored]) if RESULTS in raw else {}
        )
        return raw, later

    def arguments(self, raw: Mapping[str, object]) -> dict[str, object]:
        found = self._decoded(msgspec.json.encode(raw), self._type)
        return {name: getattr(found, name) for name in self._taken}

    def encode_result(self, value: object) -> bytes | None:
        if value is None:
            self._check_result(b"null")
            return None
        try:
            data = to_json(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(f"task {self._name}: its result cannot be stored: {error}") from None
        self._check_result(data)
        return data

    def _check_result(self, data: bytes) -> None:
        """Every reader decodes by the annotation, so a result that does not fit fails the task."""
        if self._result is Any or (self._result is type(None) and data == b"null"):
            return
        try:
            self.decode_result(data)
        except PayloadError as error:
            raise PayloadError(
                f"task {self._name}: its result does not fit its return annotation: {error}"
            ) from None

    def decode_result(self, data: bytes | None) -> T | None:
        return None if data is None else self._decoded(data, self._result)


def _advice(signature: inspect.Signature, is_async: bool) -> str:
    """For a first parameter that is named like a context but has no annotation."""
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.name not in CONTEXT_NAMES or first.annotation is not first.empty:
        return ""
    kind = "flowfabric.Context" if is_async else "flowfabric.sync.Context"
    return (
        f"; {first.name} has no annotation, so it is an argument; "
        f"write {first.name}: {kind} for the run's context"
    )


def _hints(name: str, function: Callable[..., object]) -> dict[str, object]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise PayloadError(f"task {name}: its type hints cannot be read: {error}") from None


def check_kind(kind: object, where: str) -> None:
    """Raises unless values of this type can be stored."""
    if kind is type(None):
        return
    try:
        found = kinds.type_info(kind)
    except (TypeError, NameError) as error:
        raise PayloadError(f"{where}: {error}") from None
    for custom in _customs(found, set()):
        if not hasattr(custom, "model_validate"):
            raise PayloadError(f"{where}: {_named(custom)} cannot be stored; {STORABLE}")


def _customs(found: object, seen: set[int]) -> list[type]:
    if id(found) in seen or not isinstance(found, kinds.Type):
        return []
    seen.add(id(found))
    if isinstance(found, kinds.CustomType):
        return [found.cls]
    parts: list[type] = []
    for name in getattr(found, "__struct_fields__", ()):
        value = getattr(found, name)
        for item in value if isinstance(value, tuple | list) else (value,):
            parts += _customs(
                getattr(item, "type", item) if isinstance(item, kinds.Field) else item, seen
            )
    return parts


def result_of(function: Callable[..., object]) -> object:
    """The return annotation of a step's function, by which its record is decoded."""
    try:
        found = _results.get(function)
        if found is None:
            found = _results[function] = _declared_result(inspect.unwrap(function))
        return found
    except TypeError:  # the function cannot be hashed or referenced weakly
        return Any


def _declared_result(function: Callable[..., object]) -> object:
    if "return" not in getattr(function, "__annotations__", {}):
        return Any
    try:
        found = get_type_hints(function)["return"]
        check_kind(found, "its result")
        return found
    except (NameError, TypeError, AttributeError, PayloadError):
        return Any
