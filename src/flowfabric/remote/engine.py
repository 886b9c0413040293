"""The engine of a server: the same operations, each one request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Concatenate, NoReturn, ParamSpec, TypeVar, cast
from uuid import uuid4

import msgspec
from msgspec import Struct, structs

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.events.long_poll import MAX_POLL_MS, followed
from flowfabric.engine.events.subscriptions import Event, EventChannel
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.telemetry import NO_TELEMETRY, Telemetry
from flowfabric.errors import ConfigError, Unavailable
from flowfabric.ids import ExecutionId
from flowfabric.model.event import ScannerFilter
from flowfabric.model.lease import Handle, HandleFields
from flowfabric.model.stream import MAX_TAIL_BLOCK_MS, Frame, StreamFrame, Visibility
from flowfabric.remote.remote_waiter import RemoteWaiter, TopicKey
from flowfabric.remote.subscription import RemoteSubscription
from flowfabric.remote.transport import Transport
from flowfabric.wire.json_codec import decoder, encode
from flowfabric.wire.operations import OPERATIONS, answer_type, request_type, signature

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
PATH = "/v1/engine/"
_WAITS = ("block_ms", "wait_ms")
CLAIM, CALL_OFF = "claim_many", "/v1/claims/call-off"


class RemoteEngine(EngineProtocol):
    """Sends each operation to a server. Operations that HTTP does not carry are not in its type."""

    may_wait = True

    def __init__(self, url: str, token: str | None = None) -> None:
        self._transport = Transport(url, token)
        self._seen: dict[TopicKey, int] = {}
        self._telemetry: Telemetry = NO_TELEMETRY

    def bind(self, name: str, method: Callable[Concatenate[S, P], R]) -> Callable[P, R]:
        return cast("Callable[P, R]", _remote(self, name, method.__doc__))

    async def call(self, name: str, arguments: Struct) -> object:
        operation, given = OPERATIONS[name], structs.asdict(arguments)
        waits = [given[field] for field in _WAITS if field in given]
        if name == CLAIM:
            waits.append(given["policy"].max_wait_ms or 0)
        answer = await self._transport.post(
            PATH + name, encode(arguments), again=operation.again, wait_s=sum(waits) / 1_000
        )
        return decoder(answer_type(name))(answer)

    # ---- operations that are not one request

    @property
    def backend_label(self) -> str:
        return "http"

    @property
    def durability(self) -> str:
        return "that of the server"

    async def ping(self) -> None:
        await self.call("ping", request_type("ping")())

    async def server_time_ms(self) -> int:
        now = await self.call("server_time_ms", request_type("server_time_ms")())
        assert isinstance(now, int)
        return now

    async def prepare(self) -> str | None:
        """Checks that the server answers and accepts the token; its schema is its own."""
        await self.ping()
        return None

    def fields(self, handle: Handle) -> HandleFields:
        raise Unavailable("fields over HTTP")

    async def work_bell(self, *lanes: str, namespace: str | None = "default") -> RemoteWaiter:
        return RemoteWaiter(self, lanes, namespace, self._seen)

    def follow_stream(
        self,
        execution: ExecutionId,
        attempt_index: int = 0,
        after: str = "0-0",
        visibility: Visibility = Visibility.All,
        *,
        later_attempts: bool = True,
    ) -> AsyncIterator[tuple[int, StreamFrame]]:
        wait_ms = min(MAX_TAIL_BLOCK_MS, MAX_POLL_MS)
        return followed(
            lambda at, behind: self.read_followed(
                execution, at, behind, visibility, later_attempts, wait_ms
            ),
            attempt_index,
            after,
        )

    def subscribe(
        self, channel: EventChannel[Event], cursor: bytes, wanted: ScannerFilter | None
    ) -> RemoteSubscription[Event]:
        return RemoteSubscription(self, channel.channel, cursor, wanted)

    async def call_off(self, worker_instance_id: str) -> None:
        """Answers claims of this worker that wait on the server, with what they were granted."""
        await self._transport.post(
            CALL_OFF, encode({"worker_instance_id": worker_instance_id}), again=True
        )

    def with_scanners(self, settings: LoopSettings | None = None) -> bool:
        return False

    @property
    def loops_are_running(self) -> bool:
        return True

    async def shutdown_prepare(self, grace_s: float = 5.0) -> None:
        """Its loops run on the server."""

    @property
    def telemetry(self) -> Telemetry:
        return self._telemetry

    def watched_by(self, listener: Telemetry) -> None:
        """Events inside the engine are on the server; the listener gets those of the worker."""
        self._telemetry = listener

    async def close(self) -> None:
        await self._transport.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """For callers without a type checker: names the operation that HTTP does not carry."""
            if callable(getattr(LocalEngineProtocol, name, None)):
                raise Unavailable(f"{name} over HTTP")
            raise AttributeError(name)


def _keyed(name: str, request: Struct) -> Struct:
    """Gives calls that count a key of their own, so that a call sent again is recognised."""
    given = structs.asdict(request)
    if name == "report_usage" and not given["usage"].dedup_key:
        usage = structs.replace(given["usage"], dedup_key=f"http:{uuid4().hex}")
        return structs.replace(request, usage=usage)
    if name == "suspend" and not given["args"].idempotency_key:
        args = structs.replace(given["args"], idempotency_key=f"http:{uuid4().hex}")
        return structs.replace(request, args=args)
    if name == "append_frame":
        return structs.replace(request, frame=_numbered(given["frame"]))
    if name == "append_frames":
        return structs.replace(request, frames=list(map(_numbered, given["frames"])))
    return request


def _numbered(frame: Frame) -> Frame:
    return frame if frame.seq is not None else structs.replace(frame, seq=uuid4().int >> 66)


_KEYED = frozenset({"report_usage", "suspend", "append_frame", "append_frames"})


@cache
def _fields(name: str) -> frozenset[str]:
    return frozenset(request_type(name).__struct_fields__)


def _remote(engine: RemoteEngine, name: str, doc: str | None) -> Callable[..., Awaitable[object]]:
    async def call(*args: object, **named: object) -> object:
        given = dict(signature(name).bind(engine, *args, **named).arguments)
        del given["self"]
        if given.pop("connection", None) is not None:
            raise ConfigError(
                f"{name}: connection: a server cannot join a transaction of the caller; "
                "connect to the database directly"
            )
        try:
            request = request_type(name)(
                **{field: given[field] for field in _fields(name) if field in given}
            )
        except (TypeError, msgspec.ValidationError) as error:
            raise ConfigError(f"{name}: {error}") from None
        return await engine.call(name, _keyed(name, request) if name in _KEYED else request)

    call.__name__, call.__qualname__, call.__doc__ = name, f"RemoteEngine.{name}", doc
    return call
