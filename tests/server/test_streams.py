"""Routes of output streams: read, tail and server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec import Struct
from yarl import URL

from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError, NotFound, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.server.routes import streams
from tests.engine.helpers import claim, create, running
from tests.engine.stream_helpers import asleep, patch, say
from tests.patience import patient
from tests.server.client import SOON_S, Client, memory, new_id, served, stores


class Event(Struct, frozen=True):
    name: str
    id: str | None
    data: Any


@asynccontextmanager
async def following(
    client: Client, path: str, last: str | None = None
) -> AsyncIterator[AsyncIterator[Event]]:
    headers = client.headers({} if last is None else {"Last-Event-ID": last})
    async with client.session.get(URL(client.url + path), headers=headers) as found:
        assert (found.status, found.headers["content-type"].partition(";")[0]) == (
            200,
            "text/event-stream",
        )
        assert found.headers["cache-control"] == "no-store"
        yield _events(found.content)
        found.close()


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[Event]:
    fields: dict[str, str] = {}
    async for raw in content:
        line = raw.decode().rstrip("\n")
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield Event(
                fields.get("event", "message"),
                fields.get("id"),
                msgspec.json.decode(fields["data"]),
            )
            fields = {}


async def take(events: AsyncIterator[Event], count: int) -> list[Event]:
    async with patient(SOON_S):
        return [await anext(events) for _ in range(count)]


def texts(events: list[Event]) -> list[str]:
    return [each.data["fields"]["payload"] for each in events]


@stores
async def test_reading_and_tailing(engine: Engine) -> None:
    async with served(engine) as client:
        ident, handle = await running(engine)
        path = f"/v1/executions/{ident}/attempts/0/stream"
        for empty in (await client.get(path), await client.get(f"{path}/tail")):
            assert (empty.status, empty.json) == (200, {"frames": [], "count": 0})
        await say(engine, handle, "a", "b", "c")
        whole = await client.get(path)
        frames = whole.json["frames"]
        assert (whole.json["count"], len(frames), "closed_at" in whole.json) == (3, 3, False)
        for frame in frames:
            assert set(frame) == {"id", "fields"} and list(frame["fields"]) == sorted(
                frame["fields"]
            )
            assert {"frame_type", "ts", "payload", "encoding", "source", "mode"} <= set(
                frame["fields"]
            )
        first, last = frames[0]["id"], frames[2]["id"]
        assert (await client.get(f"{path}?from={frames[1]['id']}&to={frames[1]['id']}")).json[
            "frames"
        ] == frames[1:2]
        assert (await client.get(f"{path}?limit=2")).json["frames"] == frames[:2]
        assert (await client.get(f"{path}/tail?after={first}&limit=1")).json["frames"] == frames[
            1:2
        ]
        waiting = asyncio.create_task(client.get(f"{path}/tail?after={last}&block_ms=30000"))
        await say(engine, handle, "d")
        assert (await waiting).json["count"] == 1
        await engine.complete(handle, b"")
        ended = (await client.get(f"{path}/tail?after={last}&block_ms=30000")).json
        assert (ended["closed_reason"], isinstance(ended["closed_at"], int)) == (
            "attempt_success",
            True,
        )


@stores
async def test_a_tail_waits_for_a_missing_execution(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MISSING_POLL_S", 0.01)
    real, missed = engine.tail_stream, asyncio.Event()

    async def looking(*args: Any) -> Any:
        try:
            return await real(*args)
        except NotFound:
            missed.set()
            raise

    monkeypatch.setattr(engine, "tail_stream", looking)
    async with served(engine) as client:
        ident, clock = new_id(), asyncio.get_running_loop().time
        path = f"/v1/executions/{ident}/attempts/0/stream/tail"
        assert (await client.get(path)).json == {"frames": [], "count": 0}
        began = clock()
        assert (await client.get(f"{path}?block_ms=200")).json == {"frames": [], "count": 0}
        assert clock() - began >= 0.2
        missed.clear()
        waiting = asyncio.create_task(client.get(f"{path}?block_ms=30000"))
        async with patient(SOON_S):
            await missed.wait()
            await create(engine, execution_id=ExecutionId(ident))
            await say(engine, await claim(engine), "here")
            assert (await waiting).json["count"] == 1


@stores
async def test_a_tail_waits_for_the_claim_of_its_attempt(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await create(engine)
        path = f"/v1/executions/{ident}/attempts/0/stream/tail"
        assert (await client.get(f"{path}?block_ms=1")).json == {"frames": [], "count": 0}
        waiting = asyncio.create_task(client.get(f"{path}?block_ms=30000"))
        await asleep(engine, ident)
        await say(engine, await claim(engine), "a")
        assert (await waiting).json["count"] == 1


@memory
@pytest.mark.parametrize(
    "query",
    [
        "?from=-",
        "?to=%2B",
        "?from=x",
        "?limit=0",
        "?limit=1001",
        "?limit=x",
        "/tail?after=start",
        "/tail?after=end",
        "/tail?after=-",
        "/tail?block_ms=30001",
        "/tail?block_ms=-1",
        "/tail?limit=0",
        "/tail?limit=1001",
    ],
)
async def test_cursors_and_limits_that_are_refused(engine: Engine, query: str) -> None:
    async with served(engine) as client:
        ident = await client.create()
        found = await client.get(f"/v1/executions/{ident}/attempts/0/stream{query}")
        assert (found.status, bool(found.error)) == (400, True)
        for index in ("x", "-1", "4294967296"):
            assert (
                await client.get(f"/v1/executions/{ident}/attempts/{index}/stream")
            ).status == 400


@memory
async def test_a_stopping_server_answers_waiting_requests(engine: Engine) -> None:
    began = asyncio.get_running_loop().time()
    async with aiohttp.ClientSession() as session:
        async with served(engine) as client:
            ident, _ = await running(engine)
            other = Client(session, client.url, client.token)
            waiting = asyncio.create_task(
                other.get(f"/v1/executions/{ident}/wait?timeout_ms=30000")
            )
            async with patient(SOON_S):
                while ("ff_completion_event", None) not in engine.store.hub.waiters:  # noqa: ASYNC110
                    await asyncio.sleep(0)
        found = await waiting
    assert (found.status, found.json["retryable"]) == (503, True)
    assert asyncio.get_running_loop().time() - began < SOON_S


@stores
async def test_the_summary(engine: Engine) -> None:
    async with served(engine) as client:
        ident, handle = await running(engine)
        path = f"/v1/executions/{ident}/attempts/0/summary"
        assert (await client.get(path)).status == 404
        await engine.append_frame(handle, patch('{"a": 1}'))
        await engine.append_frame(handle, patch('{"b": [2]}'))
        found = await client.get(path)
    assert (found.status, found.json["document"], found.json["version"]) == (
        200,
        {"a": 1, "b": [2]},
        2,
    )


@stores
async def test_pushed_across_a_lost_connection(engine: Engine) -> None:
    """A client that reconnects with its last id gets the following frames, each once."""
    async with served(engine) as client:
        ident, handle = await running(engine)
        path = f"/v1/executions/{ident}/attempts/0/stream/events"
        await say(engine, handle, "a", "b")
        async with following(client, path) as events:
            seen = await take(events, 2)
            await say(engine, handle, "c")
            seen += await take(events, 1)
        await say(engine, handle, "d", "e")
        for _ in range(2):
            async with following(client, path, seen[-1].id) as events:
                seen += await take(events, 1)
        await engine.complete(handle, b"")
        async with following(client, path, seen[-1].id) as events:
            assert await take(events, 1) == [Event("end", None, {})]
        assert [each.id for each in seen] == [f"0:{each.data['id']}" for each in seen]
        assert len({each.id for each in seen}) == 5
        assert texts(seen) == [
            each["fields"]["payload"]
            for each in (await client.get(path.removesuffix("/events"))).json["frames"]
        ]


@stores
async def test_events_follow_the_attempts(engine: Engine) -> None:
    async with served(engine) as client:
        ident, handle = await running(
            engine,
            policy={
                "retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}
            },
        )
        path = f"/v1/executions/{ident}/attempts/0/stream/events"
        await say(engine, handle, "one")
        async with following(client, path) as events:
            assert [each.data["attempt"] for each in await take(events, 1)] == [0]
            await engine.fail(handle, "once more", FailureClass.TRANSIENT)
            with contextlib.suppress(EngineError):  # with no delay it is ready already
                await engine.promote_delayed(ident)
            again = await claim(engine)
            await say(engine, again, "two")
            (second,) = await take(events, 1)
            assert (
                second.data["attempt"] == 1 and second.id is not None and second.id.startswith("1:")
            )
            await engine.complete(again, b"")
            assert (await take(events, 1))[0].name == "end"


@memory
async def test_where_nothing_can_be_followed(engine: Engine) -> None:
    async with served(engine) as client:
        ident = await client.create()
        assert (
            await client.get(f"/v1/executions/{new_id()}/attempts/0/stream/events")
        ).status == 404
        path = f"/v1/executions/{ident}/attempts/0/stream/events"
        for bad in ("x", "0:x", "-1:0-0", "99999999999:0-0", "\u0661:0-0"):
            found = await client.get(path, headers={"Last-Event-ID": bad})
            assert found.status == 400, (bad, found)
        assert (await client.get("/v1/completions", headers={"Last-Event-ID": "zz"})).status == 400
        assert (await client.get("/v1/completions", headers={"Last-Event-ID": "00"})).status == 400
        assert (await client.get("/v1/completions?tag=x")).status == 400


@stores
async def test_completions_across_a_lost_connection(engine: Engine) -> None:
    async with served(engine) as client:
        seen, done = [], []
        last: str | None = None
        for round_ in range(3):
            async with following(client, "/v1/completions", last) as events:
                for _ in range(2):
                    ident, handle = await running(engine)
                    await engine.complete(handle, b"")
                    done.append(str(ident))
                seen += await take(events, 1 if round_ < 2 else 4)
                last = seen[-1].id
        assert [each.data["execution_id"] for each in seen] == done
        assert len({each.id for each in seen}) == 6
        assert {each.data["outcome"] for each in seen} == {"Success"}


@memory
async def test_events_are_filtered(engine: Engine) -> None:
    async with (
        served(engine) as client,
        following(client, "/v1/completions?tag=team.name=a") as events,
    ):
        for team in ("b", "a"):
            ident, handle = await running(engine, tags={"team.name": team})
            await engine.complete(handle, b"")
        assert [each.data["execution_id"] for each in await take(events, 1)] == [str(ident)]


@stores
@pytest.mark.parametrize("behind", [True, False])
async def test_the_head_does_not_wait_for_events_that_cannot_be_read_yet(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, behind: bool
) -> None:
    """An open transaction of another process delays the events."""
    name = "read_events" if behind else "last_event"
    real, go = getattr(engine.store, name), asyncio.Event()

    async def held(*given: Any) -> Any:
        await go.wait()
        return await real(*given)

    async with served(engine) as client:
        _, handle = await running(engine)
        monkeypatch.setattr(engine.store, name, held)
        async with (
            patient(SOON_S),
            following(client, "/v1/completions", BEGINNING.hex() if behind else None) as events,
        ):
            if behind:
                await engine.complete(handle, b"")
            go.set()
            if not behind:
                await until(lambda: ("ff_completion_event", None) in engine.store.hub.waiters)
                await engine.complete(handle, b"")
            (event,) = await take(events, 1)
            assert event.data["outcome"] == "Success"


@memory
async def test_errors_after_the_head_are_events(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = asyncio.Event()

    async def failing(*_: Any) -> Any:
        await go.wait()
        raise TransportError("store", "gone")

    async with served(engine) as client:
        monkeypatch.setattr(engine, "read_events", failing)
        async with following(client, "/v1/completions") as events:
            go.set()
            (event,) = await take(events, 1)
        assert (event.name, event.data["retryable"]) == ("problem", True)


async def until(is_so: Any) -> None:
    async with patient(SOON_S):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0)
