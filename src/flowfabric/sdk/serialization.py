"""Arguments and results on their way: typed by the function's own hints, checked before they are stored."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Generic, Protocol, TypeVar, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import msgspec
from msgspec import inspect as kinds

from flowfabric.errors import ConfigError
from flowfabric.sdk.exceptions import PayloadError

RESULTS = "$results"
SUBMIT_OPTIONS = frozenset(
    {"key", "key_ttl", "delay", "priority", "tags", "deadline", "lane", "requires", "connection"}
)
MAX_PAYLOAD_BYTES = 1_048_576
CARRIED = "use builtins, a dataclass, a TypedDict, a msgspec.Struct or a pydantic model"
CONTEXT_NAMES = ("ctx", "context")
T = TypeVar("T")
_results: WeakKeyDictionary[Callable[..., Any], Any] = WeakKeyDictionary()


class Injected:
    """Marks a parameter that the worker fills in from its state, by type."""


State = Annotated[T, Injected]
"""`llm: State[LlmClient]` is given by the worker: `Worker(app, state=[LlmClient()])`."""


class Codec(Protocol):
    """What stands between the task and what is stored: encryption, compression."""

    def encode(self, data: bytes) -> bytes: ...

    def decode(self, data: bytes) -> bytes: ...


def sealed(codec: Codec, data: bytes, where: str) -> bytes:
    """As it is stored."""
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
            f"{where}: it takes {len(found)} bytes, at most {MAX_PAYLOAD_BYTES} are kept; store it elsewhere"
        )
    return found


def unsealed(codec: Codec, data: bytes, where: str) -> bytes:
    try:
        return codec.decode(data)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise PayloadError(
            f"{where}: the codec cannot decode what is stored; was it stored with another? {said}"
        ) from error


def to_json(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=_outward)


def from_json(data: bytes, kind: Any) -> Any:
    return msgspec.json.decode(data, type=kind, dec_hook=_inward)


def _canonical(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=_outward, order="deterministic")


def _outward(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{_named(type(value))} cannot be carried; {CARRIED}")


def _named(kind: Any) -> str:
    """Of a class of the user's, with its module: there may be several of one name."""
    name, module = getattr(kind, "__qualname__", str(kind)), getattr(kind, "__module__", "builtins")
    return str(name) if module == "builtins" else f"{module}.{name}"


def _inward(kind: type, value: Any) -> Any:
    return kind.model_validate(value)  # type: ignore[attr-defined]  # others were refused when the task was made


class Signature(Generic[T]):
    """What a task takes and gives. Raises when it is made if something of that cannot be carried."""

    def __init__(
        self, name: str, function: Callable[..., Any], context: type, refused: tuple[type, str]
    ) -> None:
        self._name = name
        self._whole = inspect.signature(function)
        hints = _hints(name, function)
        self.context_name: str | None = None
        self.injected: dict[str, type] = {}
        self._fields: list[Any] = []
        for at, parameter in enumerate(self._whole.parameters.values()):
            hint = hints.get(parameter.name, Any)
            if hint is refused[0]:
                raise ConfigError(f"task {name}: {parameter.name}: {refused[1]}")
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
        self._advice = _advice(self._whole, context)
        self._type = msgspec.defstruct(
            "Arguments", self._fields, kw_only=True, forbid_unknown_fields=True
        )
        self._result = hints.get("return", Any)
        check_kind(self._result, f"task {name}: its result")

    def _field(self, parameter: inspect.Parameter, hint: Any) -> Any:
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
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        results: Callable[[Any], Any] | None = None,
    ) -> bytes:
        """The arguments as an object. `results` says of a value what stands for it: ids of runs whose results are meant."""
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
        data = to_json({**given, RESULTS: later}) if later else raw
        if len(data) > MAX_PAYLOAD_BYTES:
            raise PayloadError(
                f"task {self._name}: its arguments take {len(data)} bytes, at most {MAX_PAYLOAD_BYTES} are kept"
            )
        return data

    def digest(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The same for the same arguments, however they are written: by place or name, in any order of dicts and sets, `1` for
        `1.0`. One that equals its default is left out, so that a new argument with a default does not change it."""
        bound = self._bound(args, kwargs)
        found = self._decoded(_canonical(bound), self._type)
        given = {name: _canonical(getattr(found, name)) for name in sorted(bound)}
        said = [(name, value) for name, value in given.items() if self._usual(name) != value]
        return hashlib.sha256(repr((self._name, said)).encode()).hexdigest()[:32]

    def _usual(self, name: str) -> bytes | None:
        """An argument's default, if it has one that can be carried."""
        default = self._whole.parameters[name].default
        try:
            return None if default is inspect.Parameter.empty else _canonical(default)
        except (TypeError, ValueError, RecursionError):
            return None

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """By name, as Python itself would bind them: the context and what is injected are not the caller's to give."""
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

    def _decoded(self, raw: bytes, kind: Any) -> Any:
        try:
            return from_json(raw, kind)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise PayloadError(f"task {self._name}: {error}") from None
        except ValueError as error:  # of a model with rules of its own
            raise PayloadError(f"task {self._name}: {' '.join(str(error).split())[:500]}") from None

    def _culprit(self, given: Mapping[str, Any]) -> str:
        for name, value in given.items():
            try:
                to_json(value)
            except Exception:
                return f"argument {name!r}"
        return "its arguments"

    def decode(self, data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments by name, and which of them are results of other runs, still to be fetched."""
        try:
            raw = msgspec.json.decode(data or b"{}", type=dict[str, msgspec.Raw])
        except msgspec.DecodeError as error:
            raise PayloadError(f"task {self._name}: its input is not an object: {error}") from None
        later: dict[str, Any] = (
            msgspec.json.decode(raw.pop(RESULTS), type=dict[str, Any]) if RESULTS in raw else {}
        )
        return raw, later

    def arguments(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        found = self._decoded(msgspec.json.encode(raw), self._type)
        return {name: getattr(found, name) for name in self._taken}

    def encode_result(self, value: Any) -> bytes | None:
        if value is None:
            self._check_result(b"null")
            return None
        try:
            data = to_json(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise PayloadError(
                f"task {self._name}: its result cannot be carried: {error}"
            ) from None
        if len(data) > MAX_PAYLOAD_BYTES:
            raise PayloadError(
                f"task {self._name}: its result takes {len(data)} bytes, at most {MAX_PAYLOAD_BYTES} are kept"
            )
        self._check_result(data)
        return data

    def _check_result(self, data: bytes) -> None:
        """Every reader decodes a result by the annotation, so one that does not fit fails where it is made."""
        if self._result is Any or (self._result is type(None) and data == b"null"):
            return
        try:
            self.decode_result(data)
        except PayloadError as error:
            raise PayloadError(
                f"task {self._name}: its result does not fit its return annotation: {error}"
            ) from None

    def decode_result(self, data: bytes | None) -> Any:
        if data is None:
            return None
        return self._decoded(data, self._result)


def _advice(signature: inspect.Signature, context: type) -> str:
    """For those who meant the first parameter to be the run's context, and did not say so."""
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.name not in CONTEXT_NAMES or first.annotation is not first.empty:
        return ""
    kind = (
        "flowfabric.sync.Context"
        if context.__module__.endswith(".blocking")
        else "flowfabric.Context"
    )
    return f"; {first.name} has no annotation, so it is an argument; write {first.name}: {kind} for the run's context"


def _hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise PayloadError(f"task {name}: its type hints cannot be read: {error}") from None


def check_kind(kind: Any, where: str) -> None:
    """Whether values of this type can be carried."""
    if kind is type(None):
        return
    try:
        found = kinds.type_info(kind)
    except (TypeError, NameError) as error:
        raise PayloadError(f"{where}: {error}") from None
    for custom in _customs(found, set()):
        if not hasattr(custom, "model_validate"):
            raise PayloadError(f"{where}: {_named(custom)} cannot be carried; {CARRIED}")


def _customs(found: Any, seen: set[int]) -> list[Any]:
    if id(found) in seen or not isinstance(found, kinds.Type):
        return []
    seen.add(id(found))
    if isinstance(found, kinds.CustomType):
        return [found.cls]
    parts: list[Any] = []
    for name in getattr(found, "__struct_fields__", ()):
        value = getattr(found, name)
        for item in value if isinstance(value, tuple | list) else (value,):
            parts += _customs(
                getattr(item, "type", item) if isinstance(item, kinds.Field) else item, seen
            )
    return parts


def result_of(function: Callable[..., Any]) -> Any:
    """What a step says it returns, so that what was stored comes back as that."""
    try:
        found = _results.get(function)
        if found is None:
            found = _results[function] = _declared_result(inspect.unwrap(function))
        return found
    except TypeError:  # neither hashed nor remembered
        return Any


def _declared_result(function: Callable[..., Any]) -> Any:
    if "return" not in getattr(function, "__annotations__", {}):
        return Any
    try:
        found = get_type_hints(function)["return"]
        check_kind(found, "its result")
        return found
    except (NameError, TypeError, AttributeError, PayloadError):
        return Any
