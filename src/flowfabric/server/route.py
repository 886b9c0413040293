"""A route as data: what it takes, who may, what it can answer. The rest of the server is made from these."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import NotFound, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId, ExecutionIdError, parse_uuid
from flowfabric.server.auth import Caller
from flowfabric.wire.operations import Bound, Role

if TYPE_CHECKING:
    from flowfabric.server.app import Server

CONTROL, MEDIUM, LARGE, BULK = 65_536, 262_144, 1_048_576, 16 * 1_048_576
"""Bytes a request may have."""
MAX_INDEX_DIGITS = 20
MAX_ATTEMPT_INDEX = 2**31 - 1
"""No execution has so many attempts."""


class Ask(Struct):
    """One request, its parts decoded and its caller known."""

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
                f"invalid attempt index: a whole number below 4294967296, got {text[:40]!r}"
            )
        return min(int(text), MAX_ATTEMPT_INDEX)


Undo = Callable[[], Awaitable[None]]


class Reply(Struct):
    """`value` goes out as JSON; `raw` as it is; `stream` piece by piece, as server-sent events.

    `undo` takes back what was done for the caller, should he have left before he could be told.
    """

    status: int = 200
    value: Any = None
    raw: bytes | None = None
    media: str = "application/json"
    headers: dict[str, str] = {}
    stream: AsyncIterator[bytes] | None = None
    undo: Undo | None = None


Handler = Callable[[Ask], Awaitable[Reply]]


class Route(Struct, frozen=True):
    """`role` None is open to everybody. `subject` is the field of the body that `bound` looks at; without one, the path is.

    `answers` are the types by status, None for what is not JSON. A `form` is what a page sends. `streams` takes a permit of the
    streams; `waits` may be called off when the server stops or nobody waits for the answer any more.
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


def bad_request(message: str) -> ValidationError:
    """A refusal by the server itself, whose text is the whole message."""
    return Refusal(message)


class Missing(NotFound):
    """An execution, or its result, that a read has asked for; the answer repeats the id, as the original's does."""

    def __init__(self, entity: str, ident: object) -> None:
        super().__init__(entity, ident)
        self.said = f"{entity} not found: {ident}"


class Refusal(ValidationError):
    def __init__(self, message: str) -> None:
        super().__init__(ValidationKind.INVALID_INPUT, message)


def same(path: Any, body: Any, name: str) -> None:
    if str(path) != str(body):
        raise bad_request(f"path {name} does not match body {name}")


def variant(value: Struct, name: str | None = None) -> dict[str, Any] | str:
    """A result as the wire names it: the kind outside, its fields inside; a kind without fields is a bare word."""
    said = {field: getattr(value, field) for field in type(value).__struct_fields__}
    if value.__struct_config__.omit_defaults:
        said = {field: found for field, found in said.items() if found is not None}
    word = name or type(value).__name__
    return {word: said} if said else word
