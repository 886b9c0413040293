"""A route as data: its input, required role, tenancy and answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints
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
H = TypeVar("H", bound=Callable[..., Awaitable[object]])
S = TypeVar("S", bound=Struct)
T = TypeVar("T")
MAX_INDEX_DIGITS = 20
MAX_ATTEMPT_INDEX = 2**31 - 1
"""Above the attempt count of any execution."""


class ApiRequest(Struct):
    """A decoded request and its authenticated caller."""

    server: Server
    caller: Caller
    path: dict[str, str]
    query: object
    body: object
    headers: dict[str, str]

    @property
    def engine(self) -> LocalEngineProtocol:
        """The engine for this caller: that of its namespace, if the token is bound to one."""
        return self.server.engine_for(self.caller.namespace)

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
    value: object = None
    raw: bytes | None = None
    media: str = "application/json"
    headers: dict[str, str] = {}
    stream: AsyncIterator[bytes] | None = None
    undo: Undo | None = None


Handler = Callable[..., Awaitable[object]]
"""Takes the request, and the decoded `body` and `query` if it has parameters of these names.

Returns a `Reply`, or the value of a reply with status 200.
"""
OK: dict[int, object] = {200: dict[str, Any]}
CREATED = {**OK, 201: dict[str, Any]}


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
    answers: Mapping[int, object] = {}
    media: str = "application/json"
    tag: str = ""
    streams: bool = False
    form: bool = False
    waits: bool = False

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or self.path).strip().splitlines()[0]

    async def answer(self, request: ApiRequest) -> Reply:
        given = {} if self.body is None else {"body": request.body}
        if self.query is not None:
            given["query"] = request.query
        made = await self.handler(request, **given)
        return made if isinstance(made, Reply) else Reply(value=made)


class RouteGroup:
    """The routes of a module with shared fields of `Route`.

    A call returns the decorator of a handler. The types of the handler's parameters `body` and
    `query` are those of the route.
    """

    def __init__(self, **shared: object) -> None:
        self._shared = {"answers": OK} | shared
        self.all: list[Route] = []

    def __call__(self, method: str, path: str, **fields: object) -> Callable[[H], H]:
        def add(handler: H) -> H:
            hints = get_type_hints(handler)
            inputs = {name: hints[name] for name in ("body", "query") if name in hints}
            self.all.append(
                structs.replace(Route(method, path, handler), **self._shared | inputs | fields)
            )
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


def existing(value: T | None, error: NotFound) -> T:
    if value is None:
        raise error
    return value


def args_from(kind: type[S], body: Struct, **fields: object) -> S:
    """An argument of the engine from the fields of the same names in a body, and `fields`.

    A field that is None in the body has the default of `kind`. The store tells the time, and the
    id the partition.
    """
    names = set(kind.__struct_fields__) - {"now", "partition_id"}
    given = {name: getattr(body, name, None) for name in names}
    return kind(**{name: value for name, value in given.items() if value is not None} | fields)


def tagged(value: Struct, name: str | None = None) -> dict[str, object] | str:
    """A result as `{kind: fields}`; a kind without fields is a plain string."""
    fields = structs.asdict(value)
    if value.__struct_config__.omit_defaults:
        fields = {field: found for field, found in fields.items() if found is not None}
    kind = name or type(value).__name__
    return {kind: fields} if fields else kind


def created(made: Struct, new: type[Struct], *names: str) -> Reply:
    """Status 201 for a result of the type `new`, else 200; `names`: of the new, of the other."""
    is_new = isinstance(made, new)
    return Reply(201 if is_new else 200, tagged(made, names[not is_new] if names else None))
