"""A request is a span in the trace of its caller, and stamps what it creates."""

from __future__ import annotations

import aiohttp
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flowfabric import ExecutionId, memory_engine
from flowfabric.observe import TRACEPARENT, Metrics
from flowfabric.observe.tracing import Tracing
from flowfabric.server.lifecycle import serve
from flowfabric.server.telemetry import ServerTelemetry
from tests.remote.served import TOKEN, settings

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def test_a_request_continues_the_trace_of_its_caller() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    engine = memory_engine()
    watching = ServerTelemetry(Metrics(), engine, Tracing(provider))
    headers = {"authorization": f"Bearer {TOKEN}", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    async with (
        serve(watching.engine, settings(), watching) as url,
        aiohttp.ClientSession(headers=headers) as client,
    ):
        async with client.post(f"{url}/v1/executions", json={"lane_id": "default"}) as answer:
            ident = ExecutionId((await answer.json())["Created"]["execution_id"])
        async with client.get(f"{url}/v1/executions/{ident}/state") as answer:
            assert await answer.json() == "waiting"
        async with client.get(f"{url}/metrics") as answer:
            assert 'path="/v1/executions",status="201"' in await answer.text()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert {"POST /v1/executions", "GET /v1/executions/{id}/state"} <= spans.keys()
    assert all(f"{span.context.trace_id:032x}" == TRACE for span in spans.values() if span.context)
    asked, inside = spans["POST /v1/executions"], spans["ff.create_execution"]
    assert inside.parent is not None and inside.parent.span_id == asked.context.span_id
    assert inside.attributes is not None and inside.attributes["ff.execution_id"] == str(ident)
    found = await engine.describe_execution(ident)
    assert found is not None and TRACE in found.tags[TRACEPARENT]


async def test_traces_do_without_metrics() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    watching = ServerTelemetry(None, memory_engine(), Tracing(provider))
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with (
        serve(watching.engine, settings(), watching) as url,
        aiohttp.ClientSession(headers=headers) as client,
    ):
        async with client.get(f"{url}/metrics") as answer:
            assert answer.status == 404
        async with client.get(f"{url}/healthz") as answer:
            assert answer.status == 200
    assert {"GET /metrics", "GET /healthz"} <= {span.name for span in exporter.get_finished_spans()}
