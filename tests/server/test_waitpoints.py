"""Routes of waitpoints and signals."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.model.waitpoint import any_of_waitpoints
from flowfabric.testing import ManualClock
from tests.engine.suspend_helpers import Parked, park, signals
from tests.server.client import Answer, Client, memory, new_id, served, stores, uuid


async def signal(client: Client, parked: Parked, *, to: str | None = None, **said: Any) -> Answer:
    """A signal as clients of the original send it, with nothing left out."""
    known = {
        "execution_id": str(parked.ident),
        "waitpoint_id": str(parked.waitpoint.waitpoint_id),
        "signal_id": uuid(),
        "signal_name": "go",
        "signal_category": "external",
        "source_type": "test",
        "source_identity": "tester",
        "target_scope": "waitpoint",
        "waitpoint_token": parked.waitpoint.waitpoint_token,
        "now": 1,
    }
    return await client.post(f"/v1/executions/{to or parked.ident}/signal", {**known, **said})


@stores
async def test_pending_waitpoints_are_listed(engine: Engine) -> None:
    async with served(engine) as client:
        idle = await client.create(lane_id="other")
        assert (await client.get(f"/v1/executions/{idle}/pending-waitpoints")).json == []
        parked = await park(
            engine, "a", "b", "c", resume_condition=any_of_waitpoints("a", "b", "c")
        )
        found = await client.get(f"/v1/executions/{parked.ident}/pending-waitpoints")
        assert (found.status, "deprecation" in found.headers, "x-next-cursor" in found.headers) == (
            200,
            False,
            False,
        )
        assert [each["waitpoint_id"] for each in found.json] == sorted(
            str(w.waitpoint_id) for w in parked.by_key.values()
        )
        shown = {
            "waitpoint_id",
            "waitpoint_key",
            "state",
            "required_signal_names",
            "created_at",
            "activated_at",
            "execution_id",
            "token_kid",
            "token_fingerprint",
        }
        for each in found.json:
            assert set(each) == shown
            assert (each["required_signal_names"], each["state"], each["execution_id"]) == (
                [],
                "active",
                str(parked.ident),
            )
            token = parked.by_key[each["waitpoint_key"]].waitpoint_token
            assert token.endswith(each["token_fingerprint"]) is False
            assert len(each["token_fingerprint"]) == 16 and each["token_fingerprint"] in token
            assert token.encode() not in found.raw


@stores
async def test_waitpoints_page_by_page(engine: Engine) -> None:
    async with served(engine) as client:
        parked = await park(
            engine, "a", "b", "c", resume_condition=any_of_waitpoints("a", "b", "c")
        )
        path = f"/v1/executions/{parked.ident}/pending-waitpoints"
        first = await client.get(f"{path}?limit=2")
        assert len(first.json) == 2
        rest = await client.get(f"{path}?limit=2&after={first.headers['x-next-cursor']}")
        assert "x-next-cursor" not in rest.headers
        whole = (await client.get(path)).json
        assert first.json + rest.json == whole
        for bad in ("after=x", "limit=0", "limit=1001", "limit=x"):
            assert (await client.get(f"{path}?{bad}")).status == 400
        assert (await client.get(f"/v1/executions/{new_id()}/pending-waitpoints")).status == 404


@stores
async def test_the_token_is_for_operators_and_never_stored_on_the_way(engine: Engine) -> None:
    async with served(engine) as client:
        parked = await park(engine)
        path = f"/v1/executions/{parked.ident}/waitpoints"
        found = await client.get(f"{path}/{parked.waitpoint.waitpoint_id}/token")
        assert (found.status, found.headers["cache-control"]) == (200, "no-store")
        assert found.json == {"token": parked.waitpoint.waitpoint_token}
        bad = await client.get(f"{path}/x/token")
        assert (bad.status, bad.error.startswith("waitpoint_id: ")) == (400, True)
        for where in (path, f"/v1/executions/{new_id()}/waitpoints"):
            missing = await client.get(f"{where}/{uuid()}/token")
            assert (missing.status, missing.headers["cache-control"]) == (404, "no-store")
            assert missing.error == "waitpoint token not found (consumed, expired, or unknown id)"
        assert (await signal(client, parked)).status == 200
        used = await client.get(f"{path}/{parked.waitpoint.waitpoint_id}/token")
        assert (used.status, used.raw) == (404, missing.raw)


@stores
async def test_a_signal_arrives_once(engine: Engine) -> None:
    async with served(engine) as client:
        parked = await park(engine)
        ident = uuid()
        first = await signal(client, parked, signal_id=ident, idempotency_key="k", payload=[0, 255])
        assert (first.status, first.json) == (
            200,
            {"Accepted": {"signal_id": ident, "effect": "resume_condition_satisfied"}},
        )
        again = await signal(client, parked, idempotency_key="k")
        assert (again.status, again.json) == (200, {"Duplicate": {"existing_signal_id": ident}})
        assert [each.payload for each in await signals(engine, parked.ident)] == [b"\x00\xff"]


@stores
async def test_a_payload_in_base64(engine: Engine) -> None:
    async with served(engine) as client:
        parked = await park(engine)
        both = await signal(client, parked, payload=[], payload_b64="")
        assert (both.status, both.error) == (
            400,
            "payload, payload_b64: only one of the two is accepted",
        )
        assert (
            await signal(client, parked, payload_b64=base64.b64encode(b"\xff").decode())
        ).status == 200
        assert [each.payload for each in await signals(engine, parked.ident)] == [b"\xff"]


@stores
async def test_a_wrong_token_reveals_nothing(engine: Engine, clock: ManualClock) -> None:
    """The same answer whether the waitpoint, the execution or only the token is wrong."""
    async with served(engine, waitpoint_hmac_grace_ms=1_000) as client:
        parked = await park(engine)
        other = await park(engine, made={"lane_id": "other"})
        forged = parked.waitpoint.waitpoint_token[:-1] + (
            "0" if parked.waitpoint.waitpoint_token[-1] != "0" else "1"
        )
        tried = [
            await signal(client, parked, waitpoint_token=forged),
            await signal(client, parked, waitpoint_token=other.waitpoint.waitpoint_token),
            await signal(client, parked, waitpoint_id=uuid()),
            await signal(client, parked, waitpoint_id=uuid(), waitpoint_token=forged),
            await signal(client, parked, to=(gone := new_id()), execution_id=gone),
            await signal(client, parked, to=str(other.ident), execution_id=str(other.ident)),
        ]
        assert {(each.status, each.raw) for each in tried} == {(400, tried[0].raw)}
        assert "invalid_token" in tried[0].error
        missing = await signal(client, parked, waitpoint_token="")
        assert (missing.status, "missing_token" in missing.error) == (400, True)
        rotated = await client.post(
            "/v1/admin/rotate-waitpoint-secret", {"new_kid": "k2", "new_secret_hex": "ab" * 32}
        )
        assert rotated.status == 200
        clock.advance(1_001)
        expired = await signal(client, parked)
        assert (expired.status, "token_expired" in expired.error) == (400, True)
        assert await signals(engine, parked.ident) == []


@memory
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"waitpoint_id": "x"}, 422),
        ({"signal_id": None}, 422),
        ({"payload": [256]}, 422),
        ({"payload_b64": "*"}, 422),
        ({"dedup_ttl_ms": -1}, 422),
        ({"execution_id": "x"}, 422),
        ({"execution_id": new_id()}, 400),
        ({"correlation_id": None, "payload_encoding": None}, 200),
    ],
)
async def test_fields_of_a_signal(engine: Engine, changes: dict[str, Any], status: int) -> None:
    async with served(engine) as client:
        parked = await park(engine)
        found = await signal(client, parked, **changes)
        assert found.status == status, found


@memory
async def test_a_signal_may_have_a_quarter_of_a_megabyte(engine: Engine) -> None:
    async with served(engine) as client:
        path = f"/v1/executions/{new_id()}/signal"
        for size, status in ((262_144, 422), (262_145, 413)):
            body = b'{"x":"' + b"y" * (size - 8) + b'"}'
            found = await client.send(
                "POST", path, data=body, headers={"Content-Type": "application/json"}
            )
            assert found.status == status
    assert (found.json["limit_bytes"], found.json["route"]) == (
        262_144,
        "/v1/executions/{id}/signal",
    )
