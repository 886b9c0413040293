"""Requests generated from the OpenAPI document are answered as it describes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from flowfabric.engine.engine import Engine
from flowfabric.server.openapi import document
from flowfabric.store.memory import MemoryStore
from flowfabric.testing import ManualClock
from tests.server.client import ADMIN, served

EXAMPLES, NIGHTLY_EXAMPLES = 10, 100
CHECKS = (
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
SHORT = {"timeout_ms": 0, "block_ms": 0, "wait_ms": 0}
"""Nothing happens while a generated call waits, so waiting would only take time: of every wait, the
least is asked for.
"""


def _readable(schema: Any) -> Any:
    """Schemathesis writes `prefixItems` as the `items` of an older draft, and then refuses that as
    none of this draft.
    """
    if isinstance(schema, list):
        return [_readable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    said = {name: _readable(value) for name, value in schema.items()}
    if "prefixItems" in said:
        said["items"] = {"anyOf": said.pop("prefixItems")}
    return said


schema = schemathesis.openapi.from_dict(_readable(json.loads(document())))
pushed = schema.exclude(
    path_regex=r"^/v1/(completions|events/.*|executions/.*/stream/events)$"
).exclude(path="/metrics")
"""What is pushed has no end, so nothing can be said of its whole; the tests of server-sent events
read those routes.
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """One server for all examples, on a loop of its own: what is generated is sent by code that
    blocks.
    """
    started, stop, found = threading.Event(), asyncio.Event(), []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        engine = Engine(MemoryStore(ManualClock()), seed=1)
        async with served(engine) as client:
            found.append(client.url)
            started.set()
            await stop.wait()
        await engine.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(10)
    yield found[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    loop.close()


def _short(case: Any) -> None:
    for place in (case.query, case.body):
        if isinstance(place, dict):
            place.update(
                {
                    name: least
                    for name, least in SHORT.items()
                    if name in place or (place is case.query and name == "timeout_ms")
                }
            )


def _generated(examples: int) -> settings:
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pushed.parametrize()
@_generated(EXAMPLES)
def test_answers_are_as_described(case: schemathesis.Case, url: str) -> None:
    _check(case, url)


@pytest.mark.nightly
@pushed.parametrize()
@_generated(NIGHTLY_EXAMPLES)
def test_answers_to_many_requests_are_as_described(case: schemathesis.Case, url: str) -> None:
    _check(case, url)


def _check(case: schemathesis.Case, url: str) -> None:
    _short(case)
    case.call_and_validate(
        base_url=url, checks=list(CHECKS), headers={"Authorization": f"Bearer {ADMIN}"}, timeout=20
    )
