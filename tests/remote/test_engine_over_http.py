"""The remote engine: operations, network failures, and closed or foreign servers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import uuid4

import msgspec
import pytest

from flowfabric import (
    App,
    ClaimPolicy,
    CreateExecutionArgs,
    Engine,
    ExecutionId,
    connect,
    memory_engine,
)
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import (
    ConfigError,
    Conflict,
    ConflictKind,
    Contention,
    ContentionKind,
    EngineError,
    NotFound,
    ResourceExhausted,
    StateError,
    StateKind,
    StreamBackpressure,
    StreamDisconnected,
    TimedOut,
    TransportError,
    Unavailable,
    ValidationError,
    ValidationKind,
)
from flowfabric.model.stream import Frame, FrameKind
from flowfabric.remote import transport
from flowfabric.remote.connection import Connection, ConnectionLost, HttpResponse
from flowfabric.remote.engine import RemoteEngine
from flowfabric.server.lifecycle import serve
from flowfabric.wire.errors import as_error, problem_of
from flowfabric.wire.json_codec import decoder, encode
from flowfabric.wire.operations import OPERATIONS, answer_type, request_type
from tests.remote.served import TOKEN, Served, settings

LANE = "default"


def new() -> CreateExecutionArgs:
    return CreateExecutionArgs(
        execution_id=ExecutionId.solo(LANE), lane_id=LANE, input_payload=b"\x00\xff"
    )


async def test_every_engine_operation_is_available_or_raises_unavailable() -> None:
    remote = RemoteEngine("http://127.0.0.1:1")
    for name, member in inspect.getmembers(LocalEngineProtocol):
        if name.startswith("_") or not callable(member):
            continue
        if hasattr(RemoteEngine, name):
            assert callable(getattr(remote, name))
        else:
            with pytest.raises(Unavailable, match=name):
                getattr(remote, name)
    with pytest.raises(AttributeError):
        _ = remote.no_such_operation


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_arguments_and_answers_have_a_form(name: str) -> None:
    assert decoder(request_type(name)) and decoder(answer_type(name))


ERRORS: list[EngineError] = [
    NotFound("execution"),
    *(ValidationError(kind, "field: what is accepted") for kind in ValidationKind),
    ValidationError(ValidationKind.INVALID_INPUT, already_terminal=True),
    *(Contention(kind) for kind in ContentionKind),
    Contention(ContentionKind.EXECUTION_NOT_ACTIVE, terminal_outcome="success", lease_epoch="1"),
    *(Conflict(kind, "why") for kind in ConflictKind),
    *(StateError(kind) for kind in StateKind),
    TransportError("postgres", "gone", doubtful=True),
    Unavailable("this"),
    TimedOut("commit", "slow"),
    ResourceExhausted("streams", 3, 10),
    StreamDisconnected(b"\x02abc"),
    StreamBackpressure(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{type(error).__name__}-{error.code}")
def test_an_error_is_the_same_on_the_other_side(error: EngineError) -> None:
    told = as_error(msgspec.json.decode(encode(problem_of(error))))
    assert (type(told), told.code, told.error_class) == (type(error), error.code, error.error_class)
    for name in (
        "kind",
        "facts",
        "entity",
        "doubtful",
        "already_terminal",
        "cursor",
        "retry_after_ms",
    ):
        assert getattr(told, name, None) == getattr(error, name, None)


@pytest.mark.parametrize(
    "said",
    [{}, {"status": 503, "error": "x"}, [], "nonsense", {"raised": "Strange", "status": 500}],
)
def test_an_unknown_error_quotes_the_server(said: Any) -> None:
    assert isinstance(as_error(said), TransportError)


# ---- bells, events, streams


async def test_a_wake_up_between_check_and_wait_is_not_missed() -> None:
    engine = memory_engine()
    remote = cast(Engine, served := Served(engine))
    try:
        with await remote.work_bell(LANE) as bell:
            assert await bell.wait(1)  # the first time one does not know
            bell.arm()
            assert not await remote.claim_many(LANE, [], ClaimPolicy("w", "w-1"), 1)
            await engine.create_execution(new())
            assert await bell.wait(30)
        waiting = asyncio.create_task(_rung(remote))
        bell.ring()
        assert await waiting
    finally:
        await served.end()


async def _rung(remote: Engine) -> bool:
    with await remote.work_bell(LANE) as bell:
        bell.arm()
        asyncio.get_running_loop().call_soon(bell.ring)
        return await bell.wait(30)


async def test_events_come_in_order_from_a_cursor_and_after_it() -> None:
    engine = memory_engine()
    remote = cast(Engine, served := Served(engine))
    try:
        subscription = await remote.subscribe_completion()
        idents = []
        for _ in range(5):
            args = new()
            await engine.create_execution(args)
            work = await engine.claim_many(LANE, [], ClaimPolicy("w", "w-1"), 1)
            await engine.complete(work[0].handle)
            idents.append(args.execution_id)
        first = [await anext(aiter(subscription)) for _ in range(2)]
        again = remote.subscribe_completion(first[-1].cursor)
        rest = [await anext(aiter(again)) for _ in range(3)]
        assert [event.execution_id for event in first + rest] == idents
        assert again.cursor == rest[-1].cursor
        again.close()
    finally:
        await served.end()


async def test_a_frame_that_is_sent_twice_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = memory_engine()
    remote = cast(Engine, served := Served(engine))
    try:
        await engine.create_execution(new())
        work = (await remote.claim_many(LANE, [], ClaimPolicy("w", "w-1"), 1))[0]
        monkeypatch.setattr(transport, "FIRST_RETRY_S", 0.0)
        send, lost = Connection.send, []

        async def lossy(self: Connection, request: bytes) -> HttpResponse:
            answer = await send(self, request)
            if b"append_frame" in request and not lost:
                lost.append(request)
                raise ConnectionLost("the answer was lost")
            return answer

        monkeypatch.setattr(Connection, "send", lossy)
        await remote.append_frame(work.handle, Frame(b"once", FrameKind.Stdout))
        assert lost
        frames = await engine.read_stream(work.execution_id, 0)
        assert [frame.payload for frame in frames.frames] == [b"once"]
    finally:
        await served.end()


# ---- servers that are not as they should be


@asynccontextmanager
async def listening(answer: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(head))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "no response"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nbad", "answered 502"),
        (
            b"HTTP/1.1 301 Moved\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n",
            "answered 301",
        ),
    ],
)
async def test_a_strange_answer_is_a_transport_error(
    answer: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "FIRST_RETRY_S", 0.0)
    async with listening(lambda _: answer) as url:
        remote = await connect(url)
        with pytest.raises(TransportError, match=said):
            await remote.server_time_ms()
        await remote.close()


async def test_an_unreachable_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "FIRST_RETRY_S", 0.0)
    remote = await connect("http://127.0.0.1:9")
    with pytest.raises(TransportError, match="cannot be reached") as refused:
        await remote.prepare()
    assert refused.value.retryable and not refused.value.doubtful
    await remote.close()
    with pytest.raises(TransportError, match="closed"):
        await remote.server_time_ms()


@pytest.mark.parametrize(
    ("url", "more", "said"),
    [
        ("http://", {}, "http://host:port"),
        ("http://user:secret@host", {}, "must not contain a user or password"),
        ("http://host?x=1", {}, "http://host:port"),
        ("http://host:many", {}, "http://host:port"),
        ("http://host:99999", {}, "http://host:port"),
        ("http://ho st", {}, "http://host:port"),
        ("http://h\u00f6st", {}, "in ASCII"),
        ("http://host", {"token": "t\u00f6ken"}, "token"),
        ("http://host", {"token": "two\r\nlines"}, "token"),
        ("http://host", {"token": "  "}, "token"),
        ("http://host", {"readers": 3}, "unknown server setting 'readers'"),
    ],
)
async def test_invalid_urls_are_errors(url: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        await connect(url, **more)
    assert "secret" not in str(refused.value)


async def test_a_wrong_token_is_an_error_without_retry() -> None:
    async with serve(memory_engine(), settings()) as url:
        for token in (None, "wrong" * 8):
            with pytest.raises(ConfigError, match=r"401.*token"):
                async with App(url, token=token):
                    pass
        async with App(url, token=TOKEN) as app:
            assert await (await app.engine()).server_time_ms() > 0


async def test_a_transaction_of_ones_own_is_not_joined_over_http() -> None:
    remote = await connect("http://127.0.0.1:9")
    with pytest.raises(ConfigError, match="cannot join a transaction of the caller"):
        await remote.create_execution(new(), connection=object())
    with pytest.raises(TypeError):
        await remote.read_outcome(nonsense=uuid4())  # type: ignore[call-arg]
    await remote.close()
