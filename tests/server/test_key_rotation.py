"""Rotation of the signing key: exclusive, audited, without the secret in records."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import TransportError
from flowfabric.model.signing_key import RotationEntry
from flowfabric.server.routes import workers
from tests.server.client import memory, served, stores

PATH = "/v1/admin/rotate-waitpoint-secret"
SECRET = "ab" * 32


@stores
async def test_rotated_once_and_again_the_same(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(engine) as client:
        with caplog.at_level(logging.INFO):
            for _ in range(2):
                found = await client.post(PATH, {"new_kid": "k2", "new_secret_hex": SECRET})
                assert (found.status, found.json) == (
                    200,
                    {"rotated": 1, "failed": [], "new_kid": "k2"},
                )
            other = await client.post(PATH, {"new_kid": "k2", "new_secret_hex": "cd" * 32})
        assert (other.status, other.json["kind"], other.json["retryable"]) == (
            409,
            "rotation_conflict",
            False,
        )
    words = [record.getMessage() for record in caplog.records if record.name == "audit"]
    assert words.count("waitpoint_hmac_rotation_failed") == 1
    assert words.count("waitpoint_hmac_rotation_complete") == 3
    assert not [
        record
        for record in caplog.records
        if SECRET in str(record.__dict__) or "cdcd" in str(record.__dict__)
    ]


@memory
@pytest.mark.parametrize(
    ("kid", "secret", "status"),
    [
        ("", SECRET, 400),
        ("a:b", SECRET, 400),
        ("k2", "", 400),
        ("k2", "abc", 400),
        ("k2", "zz", 400),
        ("k2", None, 422),
    ],
)
async def test_invalid_keys_are_refused(
    engine: Engine, kid: str, secret: str | None, status: int
) -> None:
    async with served(engine) as client:
        found = await client.post(PATH, {"new_kid": kid, "new_secret_hex": secret})
    assert found.status == status
    assert secret is None or len(secret) < 4 or secret.encode() not in found.raw


@memory
async def test_a_second_at_the_same_time_is_sent_away(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun, go = engine.rotate_waitpoint_hmac_secret_all, asyncio.Event(), asyncio.Event()

    async def slow(*said: Any) -> list[RotationEntry]:
        begun.set()
        await go.wait()
        return await real(*said)

    monkeypatch.setattr(engine, "rotate_waitpoint_hmac_secret_all", slow)
    async with served(engine) as client:
        body = {"new_kid": "k2", "new_secret_hex": SECRET}
        first = asyncio.create_task(client.post(PATH, body))
        await begun.wait()
        second = await client.post(PATH, {**body, "new_kid": "k3"})
        assert (second.status, second.json["retryable"]) == (429, True)
        assert (
            second.error
            == "too many concurrent admin_rotate calls (server max: 1); retry with backoff"
        )
        go.set()
        assert (await first).status == 200
        assert (await client.post(PATH, {**body, "new_kid": "k3"})).status == 200


@memory
async def test_a_slow_rotation_times_out(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def stuck(*_: Any) -> list[RotationEntry]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(workers, "ROTATION_TIMEOUT_S", 0.01)
    monkeypatch.setattr(engine, "rotate_waitpoint_hmac_secret_all", stuck)
    async with served(engine) as client:
        found = await client.post(PATH, {"new_kid": "k2", "new_secret_hex": SECRET})
    assert (found.status, "retrying is safe" in found.error) == (504, True)
    assert "waitpoint_hmac_rotation_timeout_http_504" in caplog.text


@memory
@pytest.mark.parametrize(("failing", "status"), [(1, 200), (2, 500), (0, 200)])
async def test_some_or_all_partitions_fail(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, failing: int, status: int
) -> None:
    real = engine.rotate_waitpoint_hmac_secret_all

    async def partly(*said: Any) -> list[RotationEntry]:
        good = (await real(*said))[0].result
        return [
            RotationEntry(n, TransportError("store", "cut") if n < failing else good)
            for n in range(2)
        ]

    monkeypatch.setattr(engine, "rotate_waitpoint_hmac_secret_all", partly)
    async with served(engine) as client:
        found = await client.post(PATH, {"new_kid": "k2", "new_secret_hex": SECRET})
    assert found.status == status
    if status == 200:
        assert found.json == {
            "rotated": 2 - failing,
            "failed": list(range(failing)),
            "new_kid": "k2",
        }
