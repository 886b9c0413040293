"""Invalid numbers are refused; Python raises above 4,300 digits."""

from __future__ import annotations

import pytest

from flowfabric.engine.engine import Engine
from tests.engine.helpers import running
from tests.server.client import memory, quoted, served
from tests.server.test_http_protocol import TOKEN, wire

HUGE = "1" * 4_400
pytestmark = memory


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/executions/ID/attempts?after={HUGE}",
        f"/v1/executions/ID/attempts/{HUGE}/stream",
        f"/v1/executions/ID/attempts/0/stream?from={HUGE}",
        f"/v1/executions/ID/attempts/0/stream?limit={HUGE}",
        f"/v1/executions/%7Bfp:{HUGE}%7D:00000000-0000-0000-0000-000000000000",
        f"/v1/executions?partition={HUGE}",
    ],
)
async def test_a_number_of_too_many_digits(engine: Engine, path: str) -> None:
    ident, _ = await running(engine)
    async with served(engine) as client:
        found = await client.get(path.replace("ID", quoted(ident)))
    assert found.status == 400, found


@pytest.mark.parametrize("number", [HUGE, f"-{HUGE}", f"{HUGE}.5", f"1e{HUGE}"])
async def test_a_number_of_too_many_digits_in_a_body(engine: Engine, number: str) -> None:
    async with served(engine) as client:
        for path, body in (
            ("/v1/executions", '{"lane_id": "default", "priority": %s}'),
            (
                "/v1/executions",
                '{"lane_id": "default", "policy": {"timeout_policy": {"attempt_timeout_ms": %s}}}',
            ),
            (
                "/v1/quotas",
                '{"window_seconds": %s, "max_requests_per_window": 1, "max_concurrent": 1}',
            ),
        ):
            found = await client.send(
                "POST", path, data=body % number, headers={"Content-Type": "application/json"}
            )
            assert found.status in (400, 422), found


async def test_leading_zeros_of_a_partition_do_not_count(engine: Engine) -> None:
    ident, _ = await running(engine)
    async with served(engine) as client:
        found = await client.get(
            "/v1/executions/" + quoted(ident).replace("fp:", "fp:+" + "0" * 4_400)
        )
    assert found.status == 200, found


@pytest.mark.parametrize(
    "last", ["\xb2:0-0", "\xb2", f"{HUGE}:0-0", f"0:{HUGE}", "-1:0-0", "0:\xb2-0"]
)
async def test_a_last_event_id_that_was_not_sent(engine: Engine, last: str) -> None:
    """The byte itself, which is a digit in Latin-1 and no number; a client library would send it as
    UTF-8.
    """
    ident, _ = await running(engine)
    path = f"/v1/executions/{quoted(ident)}/attempts/0/stream/events"
    async with served(engine) as client, wire(client) as raw:
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nLast-Event-ID: {last}\r\n".encode("latin-1")
        await raw.send(head + TOKEN + b"\r\n")
        assert (await raw.head()).startswith(b"HTTP/1.1 400 ")
