"""A served engine and an HTTP client, over a socket on loopback."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec
import pytest
from msgspec import Struct, structs
from yarl import URL

from flowfabric.connect import ensure_signing_key
from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.server.config import ServerSettings, load_settings
from flowfabric.server.lifecycle import FIRST_KID, serve

SECRET = "2a" * 32
ADMIN = "admin-token-of-the-tests"
PROBLEM = "application/problem+json"
STORES = ["memory", "sqlite-file", "postgres", "valkey-cells"]
stores = pytest.mark.parametrize("engine", STORES, indirect=True)
memory = pytest.mark.parametrize("engine", ["memory"], indirect=True)
SOON_S = 10.0
"""More than anything here takes; only what hangs gets there."""


class Answer(Struct, frozen=True):
    status: int
    headers: Any
    raw: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.raw)

    @property
    def error(self) -> str:
        assert self.headers["content-type"] == PROBLEM, self
        said: str = self.json["error"]
        return said


class Client:
    """Sends prepared bytes and does not interpret the response."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str | None) -> None:
        self.session, self.url, self.token = session, url, token

    def with_token(self, token: str | None) -> Client:
        return Client(self.session, self.url, token)

    def headers(self, more: dict[str, str] | None = None) -> dict[str, str]:
        return {
            **({} if self.token is None else {"Authorization": f"Bearer {self.token}"}),
            **(more or {}),
        }

    async def send(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **said: Any
    ) -> Answer:
        said.setdefault("allow_redirects", False)
        where = URL(f"{self.url}{path}", encoded=True)
        async with self.session.request(
            method, where, headers=self.headers(headers), **said
        ) as found:
            return Answer(found.status, found.headers, await found.read())

    async def get(self, path: str, **said: Any) -> Answer:
        return await self.send("GET", path, **said)

    async def post(self, path: str, body: Any = None, **said: Any) -> Answer:
        return await self.send("POST", path, **({} if body is None else {"json": body}), **said)

    async def put(self, path: str, body: Any = None, **said: Any) -> Answer:
        return await self.send("PUT", path, **({} if body is None else {"json": body}), **said)

    async def create(self, **said: Any) -> str:
        made = await self.post("/v1/executions", {"lane_id": "default", **said})
        assert made.status == 201, made
        ident: str = made.json["Created"]["execution_id"]
        return ident


def a_setting(**changes: Any) -> ServerSettings:
    environ = {
        "FF_WAITPOINT_HMAC_SECRET": SECRET,
        "FF_DEV_MODE": "1",
        "FF_LISTEN_ADDR": "127.0.0.1:0",
        "FF_API_TOKEN": ADMIN,
    }
    return structs.replace(load_settings(environ), **{"drain_s": 2, **changes})


@asynccontextmanager
async def served(
    engine: Engine, clock: Callable[[], float] = time.monotonic, **changes: Any
) -> AsyncIterator[Client]:
    """The engine behind HTTP, its key seeded, and an administrator who calls it."""
    settings = a_setting(**changes)
    await ensure_signing_key(engine, FIRST_KID, settings.waitpoint_hmac_secret)
    timeout = aiohttp.ClientTimeout(total=60)
    async with (
        serve(engine, settings, clock=clock) as url,
        aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        yield Client(session, url, settings.api_token or None)


def tokens_file(folder: Path, *entries: dict[str, Any]) -> str:
    """A file of named tokens; each token is called after its name."""
    lines = []
    for entry in entries:
        lines.append("[[token]]")
        said = {"token": token_of(entry["name"]), **entry}
        lines += [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in said.items()]
    path = folder / "tokens.toml"
    path.write_text("\n".join(lines))
    return str(path)


def token_of(name: str) -> str:
    return f"the token of {name}".replace(" ", "-")


def new_id(lane: str = "default") -> str:
    return str(ExecutionId.solo(lane))


def full(**said: Any) -> dict[str, Any]:
    """A creation as clients of the original send it, with nothing left out."""
    ident = ExecutionId.solo("default")
    known = {
        "execution_id": str(ident),
        "namespace": "default",
        "lane_id": "default",
        "execution_kind": "greet",
        "input_payload": [104, 105],
        "priority": 100,
        "creator_identity": "tester",
        "partition_id": ident.partition_index,
        "now": 1_800_000_000_000,
    }
    return {**known, **said}


def uuid() -> str:
    return str(uuid4())


def quoted(ident: str) -> str:
    return ident.replace("{", "%7B").replace("}", "%7D")
