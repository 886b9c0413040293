"""Claims of disconnected clients are released, and waiting claims can be cancelled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import ClaimPolicy, Handle
from flowfabric.server.app import Server, build
from flowfabric.wire.json_codec import encode
from tests.engine.test_cancelled_claims import Held
from tests.patience import patient
from tests.server.client import (
    ADMIN,
    Client,
    a_setting,
    memory,
    served,
    stores,
    token_of,
    tokens_file,
)

JSON = {"Content-Type": "application/json"}


def claim(instance: str, wait_ms: int | None = None) -> bytes:
    policy = ClaimPolicy("w", instance, 3_600_000, wait_ms)
    return encode({"lane": "default", "capabilities": [], "policy": policy, "n": 10})


def turn(handle: Handle) -> bytes:
    policy = ClaimPolicy("w", "w-1", 3_600_000)
    return encode(
        {
            "many": [(handle, b"done")],
            "lane": "default",
            "capabilities": [],
            "policy": policy,
            "n": 10,
        }
    )


class Caller:
    """Sends a claim, and leaves as soon as it was granted."""

    def __init__(
        self,
        engine: Engine,
        monkeypatch: pytest.MonkeyPatch,
        body: bytes | None,
        call: str = "claim_many",
    ) -> None:
        self._body, self._call = body, call
        self._granted, self.told = asyncio.Event(), list[Any]()
        real = getattr(engine, call)

        async def granting(*args: Any, **named: Any) -> Any:
            answer = await real(*args, **named)
            self._granted.set()
            return answer

        monkeypatch.setattr(engine, call, granting)

    def leave(self) -> None:
        self._granted.set()

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._granted.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.told.append(message)

    async def call(self, engine: Engine) -> None:
        headers = {
            b"content-type": b"application/json",
            b"authorization": f"Bearer {ADMIN}".encode(),
        }
        path = f"/v1/engine/{self._call}"
        about = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
        }
        scope = {
            **about,
            "query_string": b"",
            "headers": list(headers.items()),
            "server": ("x", 80),
            "client": ("x", 1),
        }
        await build(Server(engine, a_setting()))(scope, self.receive, self.send)


@stores
@pytest.mark.parametrize("wait_ms", [None, 20_000])
async def test_a_disconnected_client_holds_no_claims(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, wait_ms: int | None
) -> None:
    async with served(engine) as client:
        ident = ExecutionId(await client.create())
    with monkeypatch.context() as patch:
        caller = Caller(engine, patch, claim("w-1", wait_ms))
        await caller.call(engine)
    assert caller.told == []
    await engine.promote_delayed(ident)
    found = await engine.claim_many("default", (), ClaimPolicy("w", "w-2", 30_000), 10)
    assert [(work.execution_id, work.attempt_index) for work in found] == [(ident, 0)]


async def _left_while_granted(caller: Caller, held: Held) -> None:
    await held.granted.wait()
    caller.leave()
    for _ in range(20):  # as long as it takes the server to notice
        await asyncio.sleep(0)
    held.go.set()


@stores
@pytest.mark.parametrize("wait_ms", [None, 20_000])
async def test_a_client_that_disconnects_during_a_grant_holds_no_claims(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, wait_ms: int | None
) -> None:
    async with served(engine) as client:
        ident = ExecutionId(await client.create())
    with monkeypatch.context() as patch:
        caller, held = Caller(engine, patch, claim("w-1", wait_ms)), Held(engine, patch)
        calling = asyncio.create_task(caller.call(engine))
        await _left_while_granted(caller, held)
        await calling
    await engine.promote_delayed(ident)
    found = await engine.claim_many("default", (), ClaimPolicy("w", "w-2", 30_000), 10)
    assert [(work.execution_id, work.attempt_index) for work in found] == [(ident, 0)]


@stores
@pytest.mark.parametrize("early", [False, True])
async def test_complete_and_claim_of_a_disconnected_client_completes_and_releases(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    async with served(engine) as client:
        first, second = (
            ExecutionId(await client.create(priority=9)),
            ExecutionId(await client.create()),
        )
    (work,) = await engine.claim_many("default", (), ClaimPolicy("w", "w-1", 30_000), 1)
    with monkeypatch.context() as patch:
        caller = Caller(engine, patch, turn(work.handle), "complete_and_claim")
        held = Held(engine, patch, "commit_and_sweep") if early else None
        calling = asyncio.create_task(caller.call(engine))
        if held is not None:
            await _left_while_granted(caller, held)
        await calling
    assert caller.told == []
    assert await engine.get_execution_result(first) == b"done"
    await engine.promote_delayed(second)
    found = await engine.claim_many("default", (), ClaimPolicy("w", "w-2", 30_000), 10)
    assert [(work.execution_id, work.attempt_index) for work in found] == [(second, 0)]


@memory
async def test_a_claim_that_cannot_be_released_is_logged(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise TransportError("store", "gone")

    async with served(engine) as client:
        ident = await client.create()
    monkeypatch.setattr(engine, "delay", broken)
    await Caller(engine, monkeypatch, claim("w-1")).call(engine)
    (record,) = caplog.records
    assert record.getMessage() == "claim of a disconnected worker could not be released"
    assert vars(record)["execution_id"] == str(ident)


@memory
async def test_only_ones_own_claims_are_called_off(engine: Engine, tmp_path: Path) -> None:
    entries = [{"name": name, "roles": ["work"]} for name in ("ann", "bob")]
    async with served(engine, api_tokens_file=tokens_file(tmp_path, *entries)) as client:
        ann, bob = (client.with_token(token_of(name)) for name in ("ann", "bob"))
        asked = asyncio.create_task(
            ann.send("POST", "/v1/engine/claim_many", data=claim("i", 30_000), headers=JSON)
        )
        async with patient(10):
            for by, instance, met in ((bob, "i", 0), (ann, "j", 0), (ann, "i", 1)):
                while (found := await _call_off(by, instance)) != met:
                    assert found == 0  # the claim has not arrived yet
                assert asked.done() is False or met
            answer = await asked
        assert (answer.status, answer.json) == (200, [])


async def _call_off(client: Client, instance: str) -> int:
    answer = await client.post("/v1/claims/call-off", {"worker_instance_id": instance})
    assert answer.status == 200
    found: int = answer.json["called_off"]
    return found
