"""The engine of a server: each operation is one HTTP call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from typing import Any, NoReturn, cast
from uuid import uuid4

import msgspec
from msgspec import structs

from flowfabric.engine.engine import Engine
from flowfabric.engine.events.long_poll import MAX_POLL_MS, followed
from flowfabric.engine.telemetry import NO_TELEMETRY, Telemetry
from flowfabric.errors import ConfigError, Unavailable
from flowfabric.ids import ExecutionId
from flowfabric.model.event import Channel, ScannerFilter
from flowfabric.model.lease import Handle
from flowfabric.model.stream import MAX_TAIL_BLOCK_MS, StreamFrame, Visibility
from flowfabric.remote.remote_waiter import RemoteWaiter, TopicKey
from flowfabric.remote.subscription import RemoteSubscription
from flowfabric.remote.transport import Transport
from flowfabric.wire.json_codec import decoder, encode
from flowfabric.wire.operations import OPERATIONS, Operation, answer_type, request_type, signature

PATH = "/v1/engine/"
_WAITS = ("block_ms", "wait_ms")
CLAIM, CALL_OFF = "claim_many", "/v1/claims/call-off"


class RemoteEngine:
    """Provides the operations of `wire.operations`; others raise `Unavailable`."""

    may_wait = True
    """A claim may wait on the server, which saves round trips."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._transport = Transport(url, token)
        self._seen: dict[TopicKey, int] = {}
        self.onlooker: Telemetry = NO_TELEMETRY

    async def call(self, name: str, arguments: Any) -> Any:
        operation = OPERATIONS[name]
        waits = [
            getattr(arguments, field)
            for field in _WAITS
            if field in type(arguments).__struct_fields__
        ]
        if name == CLAIM:
            waits.append(arguments.policy.max_wait_ms or 0)
        body = encode(arguments)
        answer = await self._transport.post(
            PATH + name, body, again=operation.again, wait_s=sum(waits) / 1_000
        )
        return decoder(answer_type(name))(answer)

    # ---- operations that are not one call

    @property
    def backend_label(self) -> str:
        return "http"

    @property
    def durability(self) -> str:
        return "that of the server"

    async def prepare(self) -> str | None:
        """Check that the server answers and accepts the token; it migrates its own schema."""
        await self.call("ping", request_type("ping")())
        return None

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
        read = cast(Engine, self).read_followed
        return followed(
            lambda at, behind: read(
                execution,
                at,
                behind,
                visibility,
                later_attempts,
                min(MAX_TAIL_BLOCK_MS, MAX_POLL_MS),
            ),
            attempt_index,
            after,
        )

    def subscribe_completion(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> RemoteSubscription:
        return RemoteSubscription(cast(Engine, self), Channel.COMPLETIONS, cursor, wanted)

    def subscribe_lease_history(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> RemoteSubscription:
        return RemoteSubscription(cast(Engine, self), Channel.LEASES, cursor, wanted)

    def subscribe_signal_delivery(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> RemoteSubscription:
        return RemoteSubscription(cast(Engine, self), Channel.SIGNALS, cursor, wanted)

    def subscribe_operator_events(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> RemoteSubscription:
        return RemoteSubscription(cast(Engine, self), Channel.OPERATORS, cursor, wanted)

    def subscribe_instance_tags(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> NoReturn:
        raise Unavailable("subscribe_instance_tags")

    async def claim(self, lane: str, capabilities: Any, policy: Any) -> Handle | None:
        found = await cast(Engine, self).claim_many(lane, capabilities, policy, 1)
        return found[0].handle if found else None

    async def call_off(self, worker_instance_id: str) -> None:
        """Cancel the claims of this worker that wait on the server; granted ones are answered."""
        await self._transport.post(
            CALL_OFF, encode({"worker_instance_id": worker_instance_id}), again=True
        )

    async def shutdown_prepare(self, grace_s: float = 5.0) -> None:
        """Nothing to do: the loops run on the server."""

    def watched_by(self, onlooker: Telemetry) -> None:
        """Set the telemetry of the worker; the server records events inside the engine."""
        self.onlooker = onlooker

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> RemoteEngine:
        await self.prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and callable(getattr(Engine, name, None)):
            raise Unavailable(f"{name} over HTTP")
        raise AttributeError(name)


def _keyed(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Add an idempotency key to a call that has none, so that it can be sent again."""
    if name == "report_usage" and not given["usage"].dedup_key:
        return {**given, "usage": structs.replace(given["usage"], dedup_key=f"http:{uuid4().hex}")}
    if name == "suspend" and not given["args"].idempotency_key:
        return {
            **given,
            "args": structs.replace(given["args"], idempotency_key=f"http:{uuid4().hex}"),
        }
    if name == "append_frame":
        return {**given, "frame": _numbered(given["frame"])}
    if name == "append_frames":
        return {**given, "frames": [_numbered(frame) for frame in given["frames"]]}
    return given


def _numbered(frame: Any) -> Any:
    return frame if frame.seq is not None else structs.replace(frame, seq=uuid4().int >> 66)


_KEYED = frozenset({"report_usage", "suspend", "append_frame", "append_frames"})


@cache
def _fields(name: str) -> frozenset[str]:
    return frozenset(request_type(name).__struct_fields__)


def _remote(operation: Operation) -> Callable[..., Awaitable[Any]]:
    name = operation.name

    async def call(self: RemoteEngine, *args: Any, **named: Any) -> Any:
        given = dict(signature(name).bind(self, *args, **named).arguments)
        del given["self"]
        if given.pop("connection", None) is not None:
            raise ConfigError(
                f"{name}: connection: a server cannot join a transaction of the caller; "
                "connect to the database directly"
            )
        if name in _KEYED:
            given = _keyed(name, given)
        try:
            request = request_type(name)(
                **{field: given[field] for field in _fields(name) if field in given}
            )
        except (TypeError, msgspec.ValidationError) as error:
            raise ConfigError(f"{name}: {error}") from None
        return await self.call(name, request)

    call.__name__, call.__qualname__ = name, f"RemoteEngine.{name}"
    call.__doc__ = getattr(Engine, name).__doc__
    return call


for _operation in OPERATIONS.values():
    setattr(RemoteEngine, _operation.name, _remote(_operation))
