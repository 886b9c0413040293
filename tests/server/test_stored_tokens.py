"""Tokens of the store over HTTP: roles, tenancy, revocation on every server, and bounded reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flowfabric.codec.api_token import PREFIX
from flowfabric.engine.engine import Engine
from flowfabric.errors import TransportError
from flowfabric.model.api_token import (
    ApiToken,
    CreateTokenArgs,
    IssuedToken,
    RevokeTokenArgs,
    Role,
    RotateTokenArgs,
)
from flowfabric.server.stored_tokens import MAX_AGE_S, REFRESH_S
from flowfabric.testing import ManualClock
from flowfabric.wire.json_codec import encode
from tests.patience import patient
from tests.server.client import (
    SOON_S,
    Answer,
    Client,
    memory,
    served,
    stores,
    token_of,
    tokens_file,
)

UNKNOWN = PREFIX + "A" * 43
JSON = {"Content-Type": "application/json"}


def seconds(clock: ManualClock) -> Callable[[], float]:
    return lambda: clock() / 1_000


async def issued(engine: Engine, name: str = "t", *roles: Role, **fields: Any) -> IssuedToken:
    args = CreateTokenArgs(name=name, roles=list(roles) or [Role.READ], **fields)
    return await engine.create_token(args)


async def call(client: Client, name: str, **args: Any) -> Answer:
    return await client.send("POST", f"/v1/engine/{name}", data=encode(args), headers=JSON)


async def status(client: Client, token: str) -> int:
    return (await client.with_token(token).get("/v1/capabilities")).status


class Reads:
    """Counts the reads of the table, and fails them on demand."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.fails = 0, False
        read = engine.read_live_tokens

        async def counted() -> object:
            self.count += 1
            if self.fails:
                raise TransportError("test", "the store is away")
            return await read()

        monkeypatch.setattr(engine, "read_live_tokens", counted)


@asynccontextmanager
async def two_servers(engine: Engine, clock: ManualClock) -> AsyncIterator[tuple[Client, Client]]:
    """Two servers over one store, each with a copy of the tokens of its own."""
    async with (
        served(engine, seconds(clock)) as first,
        served(Engine(engine.store, seed=2), seconds(clock)) as second,
    ):
        yield first, second


@stores
async def test_a_revoked_token_stops_working_on_both_servers_within_5_s(
    engine: Engine, clock: ManualClock
) -> None:
    made = await issued(engine)
    async with two_servers(engine, clock) as servers:
        for each in servers:
            assert await status(each, made.token) == 200
        done = await call(
            servers[0], "revoke_token", args=RevokeTokenArgs(token_id=made.info.token_id)
        )
        assert done.status == 200, done
        assert await status(servers[0], made.token) == 401
        clock.advance(int(MAX_AGE_S * 1_000))
        assert MAX_AGE_S < 5
        assert await status(servers[1], made.token) == 401


@memory
async def test_a_busy_server_reads_again_before_the_copy_is_too_old(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request that starts the read does not wait for it."""
    made = await issued(engine)
    async with served(engine, seconds(clock)) as client:
        assert await status(client, made.token) == 200
        reads = Reads(engine, monkeypatch)
        clock.advance(int(REFRESH_S * 1_000) - 1)
        assert await status(client, made.token) == 200
        assert reads.count == 0
        clock.advance(1)
        assert await status(client, made.token) == 200
        async with patient(SOON_S):
            while reads.count == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert await status(client, made.token) == 200
        assert reads.count == 1


@memory
async def test_unknown_tokens_cost_no_read_each(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(engine, monkeypatch)
    async with served(engine, seconds(clock)) as client:
        texts = [f"{PREFIX}{n:043d}" for n in range(100)]
        found = await asyncio.gather(*(status(client, text) for text in texts))
        assert set(found) == {401}
        assert reads.count == 1
        for text in ("", "x" * 1_000, PREFIX, UNKNOWN + "A", f"{PREFIX}{'é' * 43}".encode().hex()):
            assert await status(client, text) == 401
        assert reads.count == 1


@memory
async def test_without_the_store_old_copies_admit_nobody_and_configured_tokens_still_work(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await issued(engine)
    async with served(engine, seconds(clock)) as client:
        assert await status(client, made.token) == 200
        reads = Reads(engine, monkeypatch)
        reads.fails = True
        clock.advance(int(MAX_AGE_S * 1_000))
        for _ in range(5):
            answer = await client.with_token(made.token).get("/v1/capabilities")
            assert (answer.status, answer.json["retryable"]) == (503, True)
        assert reads.count == 1
        assert (await client.get("/v1/capabilities")).status == 200
        reads.fails = False
        clock.advance(500)
        assert await status(client, made.token) == 200


@memory
async def test_expiry_and_the_overlap_of_a_rotation(engine: Engine, clock: ManualClock) -> None:
    made = await issued(engine, "short", expires_in_ms=60_000)
    async with served(engine, seconds(clock)) as client:
        rotating = RotateTokenArgs(token_id=made.info.token_id, grace_ms=10_000)
        answer = await call(client, "rotate_token", args=rotating)
        rotated = answer.json["token"]
        assert [await status(client, text) for text in (made.token, rotated)] == [200, 200]
        clock.advance(9_999)
        assert [await status(client, text) for text in (made.token, rotated)] == [200, 200]
        clock.advance(1)
        assert [await status(client, text) for text in (made.token, rotated)] == [401, 200]
        clock.advance(50_000)
        assert [await status(client, text) for text in (made.token, rotated)] == [401, 401]


@memory
async def test_the_time_of_use_is_written_once_a_minute(
    engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await issued(engine)
    touches: list[object] = []
    touch = engine.touch_tokens

    async def counted(used: list[Any]) -> int:
        touches.append(used)
        return await touch(used)

    monkeypatch.setattr(engine, "touch_tokens", counted)
    async with served(engine, seconds(clock)) as client:
        for _ in range(3):
            assert await status(client, made.token) == 200
        clock.advance(30_000)
        assert await status(client, made.token) == 200
        assert len(touches) == 1
        clock.advance(30_000)
        assert await status(client, made.token) == 200
        assert len(touches) == 2
    assert (await engine.list_tokens()).items[0].last_used_at_ms == clock()


@memory
async def test_roles_namespace_and_lanes_of_a_stored_token_hold(
    engine: Engine, clock: ManualClock
) -> None:
    bound = await issued(engine, "acme", Role.SUBMIT, namespace="acme", lanes=["mail"])
    async with served(engine, seconds(clock)) as admin:
        client = admin.with_token(bound.token)
        made = await client.post("/v1/executions", {"lane_id": "mail", "execution_kind": "x"})
        assert made.status == 201, made
        ident = made.json["Created"]["execution_id"]
        assert await engine.get_execution_namespace(ident) == "acme"
        other = {"lane_id": "other", "execution_kind": "x"}
        assert (await client.post("/v1/executions", other)).status == 404
        assert (await client.post("/v1/executions", {"namespace": "b", **other})).status == 404
        assert (await client.post("/v1/lanes/mail/pause")).status == 403


@memory
async def test_only_admin_tokens_without_bounds_manage_tokens(
    engine: Engine, clock: ManualClock
) -> None:
    """A bound administrator could otherwise create a token with more than it has."""
    wanted = CreateTokenArgs(name="new", roles=[Role.ADMIN])
    async with served(engine, seconds(clock)) as client:
        bounds: list[dict[str, Any]] = [{"namespace": "acme"}, {"lanes": ["mail"]}]
        for at, fields in enumerate(bounds):
            bound = client.with_token((await issued(engine, f"b{at}", Role.ADMIN, **fields)).token)
            clock.advance(int(MAX_AGE_S * 1_000))
            ident = (await issued(engine, f"other{at}")).info.token_id
            for name, args in (
                ("create_token", {"args": wanted}),
                ("list_tokens", {}),
                ("revoke_token", {"args": RevokeTokenArgs(token_id=ident)}),
                ("rotate_token", {"args": RotateTokenArgs(token_id=ident)}),
            ):
                assert (await call(bound, name, **args)).status == 404, name
        for role in (Role.READ, Role.SUBMIT, Role.WORK, Role.OPERATE):
            lesser = client.with_token((await issued(engine, role.value, role)).token)
            clock.advance(int(MAX_AGE_S * 1_000))
            assert (await call(lesser, "create_token", args=wanted)).status == 403
        root = await issued(engine, "root", Role.ADMIN)
        clock.advance(int(MAX_AGE_S * 1_000))
        made = await call(client.with_token(root.token), "create_token", args=wanted)
        assert made.status == 200
        assert msgspec.convert(made.json["info"], ApiToken).created_by == "root"


@memory
async def test_an_answer_names_the_token_once_and_listings_never(
    engine: Engine, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with served(engine, seconds(clock)) as client:
            wanted = CreateTokenArgs(name="new", roles=[Role.READ], by="somebody else")
            text = (await call(client, "create_token", args=wanted)).json["token"]
            assert await status(client, text) == 200
            answers = [
                await call(client, "list_tokens"),
                await call(client, "create_token", args=wanted),
                await call(client.with_token(text), "list_tokens"),
                await client.with_token(text).get("/v1/nothing"),
            ]
            assert [each.status for each in answers] == [200, 400, 403, 404]
            assert b"FF_API_TOKEN" in answers[0].raw
            assert b"somebody else" not in answers[0].raw
            assert all(text.encode() not in each.raw for each in answers)
    assert text not in caplog.text
    dumped = await engine.store.dump(("ff_api_token", "ff_operator_event"))
    assert text not in repr(dumped)


@memory
async def test_configured_tokens_work_beside_stored_ones(
    engine: Engine, clock: ManualClock, tmp_path: Path
) -> None:
    made = await issued(engine)
    file = tokens_file(tmp_path, {"name": "web", "roles": ["read"]})
    async with served(engine, seconds(clock), api_tokens_file=file) as client:
        for text in (made.token, token_of("web"), client.token):
            assert text is not None
            assert await status(client, text) == 200
        assert await status(client, UNKNOWN) == 401


@memory
async def test_a_server_without_configured_tokens_still_refuses_a_revoked_one(
    engine: Engine, clock: ManualClock
) -> None:
    made = await issued(engine)
    async with served(engine, seconds(clock), api_token="") as client:
        assert (await client.get("/v1/capabilities")).status == 200
        refused = await client.with_token(made.token).post("/v1/lanes/mail/pause", headers=JSON)
        assert refused.status == 403
        await engine.revoke_token(RevokeTokenArgs(token_id=made.info.token_id))
        clock.advance(int(MAX_AGE_S * 1_000))
        assert await status(client, made.token) == 401


@memory
async def test_open_streams_and_long_polls_end_with_their_token(
    engine: Engine, clock: ManualClock
) -> None:
    made = await issued(engine, "t", Role.WORK)
    async with served(engine, seconds(clock)) as client:
        caller = client.with_token(made.token)
        pushed = await client.session.get(
            f"{client.url}/v1/completions", headers=caller.headers(), timeout=None
        )
        assert pushed.status == 200
        policy = {"worker_id": "w", "worker_instance_id": "w", "lease_ttl_ms": 1_000}
        claim = {"lane": "default", "capabilities": [], "n": 1}
        waiting = asyncio.ensure_future(
            call(caller, "claim_many", policy={**policy, "max_wait_ms": 30_000}, **claim)
        )
        async with patient(SOON_S):
            await asyncio.sleep(0)
            await engine.revoke_token(RevokeTokenArgs(token_id=made.info.token_id))
            clock.advance(int(MAX_AGE_S * 1_000))
            while await pushed.content.readany():
                pass
            answer = await waiting
        assert answer.status == 401
