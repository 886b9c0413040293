"""A route as data: its input, required role, tenancy and answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import NotFound, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId, ExecutionIdError, parse_uuid
from flowfabric.server.auth import Caller
from flowfabric.wire.operations import Bound, Role

if TYPE_CHECKING:
    from flowfabric.server.app import Server

CONTROL, MEDIUM, LARGE, BULK = 65_536, 262_144, 1_048_576, 16 * 1_048_576
"""Size limits of request bodies in bytes."""
MAX_INDEX_DIGITS = 20
MAX_ATTEMPT_INDEX = 2**31 - 1
"""Above the attempt count of any execution."""


class ApiRequest(Struct):
    """A decoded request and its authenticated caller."""

    server: Server
    caller: Caller
    path: dict[str, str]
    query: Any
    body: Any
    headers: dict[str, str]

    @property
    def engine(self) -> LocalEngineProtocol:
        return self.server.engine

    def execution(self, name: str = "id") -> ExecutionId:
        try:
            return ExecutionId(self.path[name])
        except ExecutionIdError as error:
            raise bad_request(f"invalid execution_id: {error}") from None

    def uuid(self, name: str = "id", shown: str = "flow_id") -> UUID:
        try:
            return parse_uuid(self.path[name])
        except ValueError:
            raise bad_request(
                f"{'waitpoint_id' if shown == 'waitpoint_id' else f'invalid {shown}'}: not a uuid"
            ) from None

    def index(self, name: str = "idx") -> int:
        text = self.path[name]
        if (
            not text.isascii()
            or not text.isdigit()
            or len(text) > MAX_INDEX_DIGITS
            or int(text) >= 2**32
        ):
            raise bad_request(
                f"invalid attempt index: expected an integer below 4294967296, got {text[:40]!r}"
            )
        return min(int(text), MAX_ATTEMPT_INDEX)


Undo = Callable[[], Awaitable[None]]


class Reply(Struct):
    """A response: `value` is encoded as JSON, `raw` is sent unchanged, `stream` is sent in parts.

    `undo` reverts the effect of the request if the client has disconnected before the response.
    """

    status: int = 200
    value: Any = None
    raw: bytes | None = None
    media: str = "application/json"
    headers: dict[str, str] = {}
    stream: AsyncIterator[bytes] | None = None
    undo: Undo | None = None


Handler = Callable[[ApiRequest], Awaitable[Reply]]


class Route(Struct, frozen=True):
    """One method of one path.

    `role`: None admits every caller. `subject`: the body field that `bound` checks; empty: the
    path. `answers`: the type per status, None for content other than JSON. `form`: the body is an
    HTML form. `streams`: counts as a stream operation. `waits`: is cancelled when the server stops
    or the client disconnects.
    """

    method: str
    path: str
    handler: Handler
    role: Role | None = Role.READ
    bound: Bound = Bound.NEVER
    subject: str = ""
    body: Any = None
    query: Any = None
    limit: int = CONTROL
    answers: dict[int, Any] = {}
    media: str = "application/json"
    tag: str = ""
    streams: bool = False
    form: bool = False
    waits: bool = False

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or self.path).strip().splitlines()[0]


OK: dict[int, Any] = {200: dict[str, Any]}
CREATED: dict[int, Any] = {200: dict[str, Any], 201: dict[str, Any]}


class RouteOptions(TypedDict, total=False):
    """The fields of `Route` that a group or a route may set."""

    role: Role | None
    bound: Bound
    subject: str
    body: Any
    query: Any
    limit: int
    answers: dict[int, Any]
    media: str
    tag: str
    streams: bool
    form: bool
    waits: bool


class RouteGroup:
    """The routes of a module with shared defaults; a call returns the decorator of a handler."""

    def __init__(self, **defaults: Unpack[RouteOptions]) -> None:
        self._defaults = RouteOptions(answers=OK) | defaults
        self.all: list[Route] = []

    def __call__(
        self, method: str, path: str, **options: Unpack[RouteOptions]
    ) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            self.all.append(Route(method, path, handler, **(self._defaults | options)))
            return handler

        return add


def bad_request(message: str) -> ValidationError:
    """An error of the server, whose text is the complete message."""
    return InvalidRequest(message)


class MissingEntity(NotFound):
    """A missing execution or result; the message contains the id, as in the original API."""

    def __init__(self, entity: str, ident: object) -> None:
        super().__init__(entity, ident)
        self.message = f"{entity} not found: {ident}"


class InvalidRequest(ValidationError):
    def __init__(self, message: str) -> None:
        super().__init__(ValidationKind.INVALID_INPUT, message)


def require_match(path: object, body: object, name: str) -> None:
    if str(path) != str(body):
        raise bad_request(f"path {name} does not match body {name}")


def tagged(value: Struct, name: str | None = None) -> dict[str, Any] | str:
    """A result as `{kind: fields}`; a kind without fields is a plain string."""
    fields = structs.asdict(value)
    if value.__struct_config__.omit_defaults:
        fields = {field: found for field, found in fields.items() if found is not None}
    kind = name or type(value).__name__
    return {kind: fields} if fields else kind
