"""A server without tokens: local programs have access, web pages have none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec import structs

from flowfabric import memory_engine
from flowfabric.engine.engine import Engine
from flowfabric.observe import Metrics
from flowfabric.server.lifecycle import serve
from flowfabric.server.telemetry import ServerTelemetry
from tests.server.client import ADMIN, Client, a_setting, memory, served, token_of, tokens_file

PAUSE = "/v1/lanes/mail/pause"
JSON = {"Content-Type": "application/json"}
EVIL = "https://evil.example"


async def states(client: Client) -> str:
    return str((await client.get("/v1/lanes/mail")).json)


@memory
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "localhost.evil:1",
        "[::2]",
        "",
    ],
)
async def test_a_name_that_was_pointed_here_is_refused(engine: Engine, host: str) -> None:
    async with served(engine, api_token="") as client:
        before, port = await states(client), client.url.rpartition(":")[2]
        headers = {"Host": host.format(port=port)}
        for found in (
            await client.get("/v1/lanes/mail", headers=headers),
            await client.post(PAUSE, headers=headers | JSON),
        ):
            assert found.status == 403 and "FF_API_TOKEN" in found.error, host
        assert await states(client) == before
        assert (await client.get("/healthz", headers=headers)).status == 200


@memory
@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:{port}", "127.0.0.1", "127.0.0.1:{port}", "[::1]:{port}", "[::1]"],
)
async def test_names_of_this_machine_are_served(engine: Engine, host: str) -> None:
    async with served(engine, api_token="") as client:
        headers = {"Host": host.format(port=client.url.rpartition(":")[2])}
        assert (await client.get("/v1/config", headers=headers)).status == 200
        assert (await client.post(PAUSE, headers=headers | JSON)).status == 200


@memory
@pytest.mark.parametrize(
    "origin", [EVIL, "null", "http://localhost:1", "http://127.0.0.1.evil.example"]
)
async def test_a_page_from_elsewhere_is_refused(engine: Engine, origin: str) -> None:
    async with served(engine, api_token="") as client:
        before = await states(client)
        for found in (
            await client.post(PAUSE, headers={"Origin": origin, **JSON}),
            await client.post(PAUSE, headers={"Origin": origin, "Content-Type": "text/plain"}),
            await client.get("/v1/executions?partition=0", headers={"Origin": origin}),
        ):
            assert found.status == 403 and "FF_CORS_ORIGINS" in found.error
        assert await states(client) == before


@memory
@pytest.mark.parametrize("allowed", [["*"], [EVIL], []])
async def test_allowed_origins_and_the_server_itself(engine: Engine, allowed: list[str]) -> None:
    async with served(engine, api_token="", cors_origins=allowed) as client:
        assert (await client.post(PAUSE, headers={"Origin": client.url, **JSON})).status == 200
        found = await client.post(PAUSE, headers={"Origin": EVIL, **JSON})
        assert found.status == (200 if allowed else 403)


@memory
@pytest.mark.parametrize(
    "media",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None],
)
async def test_a_write_is_json_even_without_a_body(engine: Engine, media: str | None) -> None:
    async with served(engine, api_token="") as client:
        before = await states(client)
        said: dict[str, Any] = {
            "skip_auto_headers": ["Content-Type"],
            "headers": {} if media is None else {"Content-Type": media},
        }
        for path, data in (
            (PAUSE, b""),
            (PAUSE, b"{}"),
            ("/v1/executions", b'{"lane_id": "mail"}'),
        ):
            assert (await client.send("POST", path, data=data, **said)).status == 415
        assert await states(client) == before
        assert (
            await client.post(PAUSE, headers={"Content-Type": "application/json; charset=utf-8"})
        ).status == 200


@memory
async def test_a_token_is_sufficient(engine: Engine) -> None:
    """Pages cannot send it unless they know it."""
    async with served(engine) as client:
        headers = {"Host": "jobs.example.org", "Origin": EVIL}
        assert (await client.post(PAUSE, headers=headers)).status == 200
        assert (await client.with_token(None).post(PAUSE, headers=headers)).status == 401


async def _metrics(url: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/metrics", headers=headers) as found,
    ):
        return found.status, await found.read()


async def test_metrics_need_a_token_that_may_read_everything(tmp_path: Path) -> None:
    bound = {"name": "acme", "roles": ["read"], "namespace": "acme"}
    file = tokens_file(tmp_path, {"name": "scraper", "roles": ["read"]}, bound)
    watching = ServerTelemetry(Metrics(), memory_engine())
    for settings, expected in (
        (a_setting(api_tokens_file=file), {None: 401, "scraper": 200, "acme": 404, ADMIN: 200}),
        (
            a_setting(api_tokens_file=file, metrics_open=True),
            {None: 200, "scraper": 200, "acme": 200, ADMIN: 200},
        ),
        (structs.replace(a_setting(), api_token=""), {None: 200}),
    ):
        async with serve(watching.engine, settings, watching) as url:
            for name, status in expected.items():
                token = name if name in (None, ADMIN) else token_of(name)
                found, page = await _metrics(
                    url, {} if token is None else {"Authorization": f"Bearer {token}"}
                )
                assert (found, b"ff_" in page) == (status, status == 200), name
