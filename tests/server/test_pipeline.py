"""Checks of every request: token, origin, size and JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from io import BytesIO

import pytest

from flowfabric.engine.engine import Engine
from tests.server.client import ADMIN, memory, new_id, served

JSON = {"Content-Type": "application/json"}
UNAUTHORIZED = "missing or invalid Authorization header"


@memory
@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        ADMIN,
        f"bearer {ADMIN}",
        f"BEARER {ADMIN}",
        f"Bearer  {ADMIN}",
        f"Bearer\t{ADMIN}",
        f"Bearer {ADMIN}x",
        f"Bearer {ADMIN[:-1]}",
        f"Bearer {ADMIN} x",
        f"Basic {ADMIN}",
        "Bearer",
        "Bearer ",
        "Bearer \u00e9",
    ],
)
async def test_the_authorization_header_must_match_exactly(
    engine: Engine, header: str | None
) -> None:
    async with served(engine) as client:
        stranger = client.with_token(None)
        headers = {} if header is None else {"Authorization": header}
        for method, path in (
            ("GET", "/v1/config"),
            ("GET", "/nowhere"),
            ("DELETE", "/v1/config"),
            ("POST", "/v1/executions"),
        ):
            found = await stranger.send(method, path, headers=headers)
            assert (found.status, found.error) == (401, UNAUTHORIZED), (method, path)
            assert found.headers["www-authenticate"] == "Bearer"
        for path in ("/healthz", "/readyz", "/openapi.json", "/docs"):
            assert (await stranger.get(path, headers=headers)).status == 200


@memory
async def test_with_a_token_the_path_and_the_method_are_looked_at(engine: Engine) -> None:
    async with served(engine) as client:
        assert (await client.get("/v1/config")).status == 200
        for path in ("/nowhere", "/v1", "/v1/executions/", "//v1/config", "/v1/engine/close"):
            unknown = await client.get(path)
            assert (unknown.status, unknown.json["status"]) == (404, 404), path
            assert unknown.error.startswith("no such path: ")
        for path, allowed in (
            ("/v1/executions", "GET, POST"),
            ("/healthz", "GET"),
            ("/v1/engine/ping", "POST"),
        ):
            wrong = await client.send("DELETE", path)
            assert (wrong.status, wrong.headers["allow"], bool(wrong.error)) == (405, allowed, True)
        assert (await client.send("OPTIONS", "/v1/config")).status == 405
        head = await client.send("HEAD", "/v1/config")
        assert (head.status, head.raw) == (200, b"")


@memory
async def test_without_tokens_every_local_caller_has_access(engine: Engine) -> None:
    async with served(engine, api_token="") as client:
        assert client.token is None
        assert (await client.get("/v1/config")).status == 200
        assert (await client.get("/nowhere")).status == 404


# ---- origins

ASKED = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization"}


@memory
async def test_pages_from_elsewhere_may_not_unless_allowed(engine: Engine) -> None:
    async with served(engine) as client:
        origin = {"Origin": "https://app.example"}
        for found in (
            await client.with_token(None).send(
                "OPTIONS", "/v1/executions", headers={**origin, **ASKED}
            ),
            await client.get("/v1/config", headers=origin),
        ):
            assert found.status == 200
            assert not [name for name in found.headers if name.lower().startswith("access-control")]


@memory
async def test_allowed_by_name(engine: Engine) -> None:
    async with served(engine, cors_origins=["https://a.example", "https://b.example"]) as client:
        for origin, allowed in (
            ("https://a.example", True),
            ("https://b.example", True),
            ("https://c.example", False),
            ("https://a.example.evil", False),
            ("null", False),
        ):
            preflight = await client.with_token(None).send(
                "OPTIONS", "/v1/executions", headers={"Origin": origin, **ASKED}
            )
            call = await client.get("/v1/config", headers={"Origin": origin})
            denied = await client.with_token(None).get("/v1/config", headers={"Origin": origin})
            assert (preflight.status, call.status, denied.status) == (200, 200, 401)
            for found in (preflight, call, denied):
                assert found.headers.get("access-control-allow-origin") == (
                    origin if allowed else None
                )
                assert found.headers["vary"] == "Origin"
            if allowed:
                assert preflight.headers["access-control-allow-methods"] == "GET, POST, PUT"
                assert (
                    preflight.headers["access-control-allow-headers"]
                    == "content-type, authorization"
                )
                assert "access-control-allow-credentials" not in preflight.headers


@memory
async def test_allowed_to_all(engine: Engine) -> None:
    async with served(engine, cors_origins=["*"], api_token="") as client:
        asked = {"Origin": "https://any.example", "Access-Control-Request-Method": "PATCH"}
        found = await client.send(
            "OPTIONS", "/nowhere", headers={**asked, "Access-Control-Request-Headers": "x-own"}
        )
        assert (found.status, found.headers["access-control-allow-origin"]) == (200, "*")
        assert "PATCH" in found.headers["access-control-allow-methods"]
        assert "x-own" in found.headers["access-control-allow-headers"]
        call = await client.get("/healthz", headers={"Origin": "https://any.example"})
        assert call.headers["access-control-allow-origin"] == "*"


# ---- bodies

LIMITS = [
    ("POST", "/v1/executions", "/v1/executions", 1_048_576),
    (
        "POST",
        "/v1/executions/%7Bfp:0%7D:7c6f6a0e-0000-4000-8000-000000000000/signal",
        "/v1/executions/{id}/signal",
        262_144,
    ),
    ("POST", "/v1/quotas", "/v1/quotas", 65_536),
    (
        "PUT",
        "/v1/executions/%7Bfp:0%7D:7c6f6a0e-0000-4000-8000-000000000000/priority",
        "/v1/executions/{id}/priority",
        65_536,
    ),
]


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 60_000):
        yield body[at : at + 60_000]


@memory
@pytest.mark.parametrize(("method", "path", "template", "limit"), LIMITS)
@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "chunked"])
async def test_bodies_at_and_above_the_limit(
    engine: Engine, method: str, path: str, template: str, limit: int, chunked: bool
) -> None:
    async with served(engine) as client:
        for size, status in ((limit, 422), (limit + 1, 413)):
            body = b'{"' + b"x" * (size - 6) + b'":1}'
            found = await client.send(
                method, path, data=_pieces(body) if chunked else BytesIO(body), headers=JSON
            )
            assert (len(body), found.status) == (size, status)
        assert (found.error, found.json["limit_bytes"], found.json["route"]) == (
            "payload_too_large",
            limit,
            template,
        )


@memory
@pytest.mark.parametrize("rest", ["replay", "revoke-lease"])
async def test_too_much_is_refused_where_nothing_is_read_too(engine: Engine, rest: str) -> None:
    async with served(engine) as client:
        path = f"/v1/executions/{new_id()}/{rest}"
        for size, status in ((65_536, 404), (65_537, 413)):
            found = await client.send("POST", path, data=b"x" * size)
            assert (size, found.status) == (size, status)
        assert found.json["route"] == f"/v1/executions/{{id}}/{rest}"


@memory
@pytest.mark.parametrize(
    ("body", "media", "status"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"flow_kind": "\xff"}', "application/json", 400),
        (b"[" * 50_000, "application/json", 422),
        (b"null", "application/json", 422),
        (b"[]", "application/json", 422),
        (b'{"flow_id": "x"}', "application/json", 422),
        (b'{"flow_kind": 7}', "application/json", 422),
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
        (b"{}", "application/x-www-form-urlencoded", 415),
        (b"{}", "application/json; charset=utf-8", 201),
        (b"{}", "APPLICATION/JSON", 201),
        (b"{}", "application/vnd.api+json", 201),
    ],
)
async def test_json_that_cannot_be_read(
    engine: Engine, body: bytes, media: str, status: int
) -> None:
    phrases = {400: "Bad Request", 415: "Unsupported Media Type", 422: "Unprocessable"}
    async with served(engine) as client:
        found = await client.send("POST", "/v1/flows", data=body, headers={"Content-Type": media})
        assert found.status == status, found
        if status != 201:
            assert found.error.startswith(f"invalid JSON: {phrases[status]}")


@memory
async def test_chunked_bodies_fail_like_others(engine: Engine) -> None:
    """Unions without a JSON tag use another decoder, which must refuse the same bodies."""
    deep = b"[" * 50_000
    async with served(engine) as client:
        for path in ("suspend", "append_frame", "history", "claim_many"):
            for body, status in (
                (b"{", 400),
                (b"[]", 422),
                (b"{}", 422),
                (b"\xff", 400),
                (deep, 422),
            ):
                found = await client.send("POST", f"/v1/engine/{path}", data=body, headers=JSON)
                assert found.status == status, (path, body[:5], found)


@memory
async def test_many_calls_at_once_do_not_mix(engine: Engine) -> None:
    async with served(engine) as client:
        made = await asyncio.gather(*(client.create(tags={"n.n": str(n)}) for n in range(50)))
        tags = await asyncio.gather(*(client.get(f"/v1/executions/{ident}/tags") for ident in made))
    assert [each.json["n.n"] for each in tags] == [str(n) for n in range(50)]
