"""Usage reports of workers require a granted and live lease."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec import structs

from flowfabric.codec.handle import decode_handle, encode_handle
from flowfabric.engine.engine import Engine
from flowfabric.model.budget import HardBreach, UsageDimensions
from flowfabric.model.lease import Handle
from flowfabric.wire.json_codec import encode
from tests.engine.budget_helpers import budget, report, usage
from tests.engine.helpers import running, state
from tests.server.client import served, stores, token_of, tokens_file

JSON = {"Content-Type": "application/json"}
FORGED: list[dict[str, Any]] = [{}, {"lease_epoch": 0}, {"attempt_index": 3}]


@stores
@pytest.mark.parametrize("action", ["fail_execution", "suspend_execution", "cancel_flow_pending"])
async def test_a_forged_report_is_refused_and_the_owner_continues(
    engine: Engine, action: str, tmp_path: Path
) -> None:
    ident = await budget(engine, {"t": 10}, on_hard_limit=action)
    await report(engine, ident, t=9)
    who, handle = await running(engine)
    held = decode_handle(handle, engine.store.tag)
    async with served(
        engine, api_tokens_file=tokens_file(tmp_path, {"name": "worker", "roles": ["work"]})
    ) as client:
        worker = client.with_token(token_of("worker"))

        async def send(shown: Handle, amount: int) -> Any:
            said = {
                "handle": shown,
                "budget_id": ident,
                "usage": UsageDimensions(custom={"t": amount}, dedup_key=str(uuid4())),
            }
            return await worker.send(
                "POST", "/v1/engine/report_usage", data=encode(said), headers=JSON
            )

        for changes in FORGED:
            made_up = encode_handle(structs.replace(held, lease_id=uuid4(), **changes))
            for amount in (1, 5):
                answer = await send(Handle(handle.backend, handle.kind, made_up), amount)
                assert (answer.status, answer.json["code"]) == (409, "lease_conflict"), answer.json
        assert (await usage(engine, ident), await state(engine, who)) == ({"t": 9}, "RUNNING")
        await engine.renew(handle)
        assert (await send(handle, 1)).status == 200
        assert await engine.report_usage(
            handle, ident, UsageDimensions(custom={"t": 1})
        ) == HardBreach("t", 10, 10, None if action == "cancel_flow_pending" else action)
