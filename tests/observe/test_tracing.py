"""Spans of operations and runs, and their links."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, get_current_span

from flowfabric import App, Context, Engine, Retry, Worker
from flowfabric.codec.handle import decode_fields
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import EngineError
from flowfabric.model.lease import Handle, HandleKind
from flowfabric.observe import TRACEPARENT, Metrics, instrumented, tracing_from_environment, watch
from flowfabric.observe.tracing import OPERATIONS, Tracing
from tests.engine.helpers import create, running
from tests.engine.suspend_helpers import park, seed, signal_args

from .helpers import values


class Recorded:
    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(self.provider)

    def spans(self, name: str = "") -> Sequence[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(name)]


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


async def test_an_operation_is_a_span_with_its_ids(memory: Engine, recorded: Recorded) -> None:
    engine = recorded.tracing.traced(memory)
    ident, handle = await running(engine)
    await engine.complete(handle, b"secret payload")
    (span,) = recorded.spans("ff.complete")
    fields = decode_fields(handle.opaque)
    assert dict(span.attributes or {}) == {
        "ff.backend": "memory",
        "ff.execution_id": str(ident),
        "ff.attempt_id": str(fields.attempt_id),
        "ff.lease_epoch": fields.lease_epoch,
    }
    (made,) = recorded.spans("ff.create_execution")
    assert (made.attributes or {})["ff.execution_id"] == str(ident)


async def test_arguments_by_name_are_found_in_any_order(
    memory: Engine, recorded: Recorded, metrics: Metrics
) -> None:
    engine = recorded.tracing.traced(instrumented(memory, metrics))
    flow, edge = uuid4(), uuid4()
    assert await engine.describe_edge(edge_id=edge, flow_id=flow) is None
    said = dict(recorded.spans("ff.describe_edge")[0].attributes or {})
    assert said == {"ff.backend": "memory", "ff.flow_id": str(flow), "ff.edge_id": str(edge)}


async def test_an_error_is_the_status_of_its_span(memory: Engine, recorded: Recorded) -> None:
    engine = recorded.tracing.traced(memory)
    with pytest.raises(EngineError):
        await engine.complete(Handle("Sqlite", HandleKind.FRESH, b"nonsense"))
    (span,) = recorded.spans("ff.complete")
    assert span.status.status_code is StatusCode.ERROR
    assert not span.events, "a message may hold what nobody should read"


async def test_spans_contain_no_credentials(memory: Engine, recorded: Recorded) -> None:
    engine = recorded.tracing.traced(memory)
    await seed(engine)
    parked = await park(engine)
    await engine.deliver_signal(signal_args(parked.ident, parked.waitpoint))
    text = " ".join(span.to_json() for span in recorded.spans())
    lease = str(decode_fields(parked.held.opaque).lease_id)
    assert "ff.deliver_signal" in text and "ff.suspend" in text
    assert not [
        each
        for each in (lease, parked.waitpoint.waitpoint_token, parked.held.opaque.hex())
        if each in text
    ]


async def test_every_attempt_is_a_span_linked_to_the_submission(
    memory: Engine, recorded: Recorded
) -> None:
    app = App("memory://", engine=memory)
    watch(app, tracing=recorded.tracing)

    @app.task(retry=Retry(max=1, base="1ms"))
    async def flaky(ctx: Context) -> str:
        if ctx.attempt == 0:
            raise ValueError("the first time")
        return ctx.tags[TRACEPARENT]

    tracer = recorded.provider.get_tracer("test")
    async with app, Worker(app):
        with tracer.start_as_current_span("the user's own") as mine:
            run = await flaky.submit()
        stored = await run.result()
    trace_id = mine.get_span_context().trace_id
    assert f"{trace_id:032x}" in stored
    attempts = recorded.spans("ff.task flaky")
    assert [(span.attributes or {})["ff.attempt_index"] for span in attempts] == [0, 1]
    assert [span.status.status_code for span in attempts] == [StatusCode.ERROR, StatusCode.UNSET]
    assert [[link.context.trace_id for link in span.links] for span in attempts] == [[trace_id]] * 2
    (submitted,) = recorded.spans("ff.create_execution")
    assert submitted.context.trace_id == trace_id


async def test_operations_of_a_task_are_inside_its_span(memory: Engine, recorded: Recorded) -> None:
    app = App("memory://", engine=memory)
    watch(app, tracing=recorded.tracing)

    @app.task
    async def outer() -> str:
        return str((await inner.submit()).id)

    @app.task
    async def inner(ctx: Context) -> None: ...

    async with app, Worker(app):
        run = await outer.submit()
        await app.run(await run.result()).result()
    (parent,), (child,) = recorded.spans("ff.task outer"), recorded.spans("ff.task inner")
    assert [link.context.trace_id for link in child.links] == [parent.context.trace_id]
    assert not parent.links, "nobody's trace was under way when it was submitted"


async def test_a_task_in_a_thread_is_inside_its_span_too(
    memory: Engine, recorded: Recorded
) -> None:
    app = App("memory://", engine=memory)
    watch(app, tracing=recorded.tracing)

    @app.task
    def blocking() -> int:
        return get_current_span().get_span_context().trace_id % 1_000_000

    async with app, Worker(app):
        found = await (await blocking.submit()).result()
    assert found == recorded.spans("ff.task blocking")[0].context.trace_id % 1_000_000


async def test_a_request_continues_the_trace_of_its_caller(
    memory: Engine, recorded: Recorded
) -> None:
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    engine = recorded.tracing.traced(memory)
    with recorded.tracing.request("POST", "/v1/executions", {"traceparent": caller}):
        await create(engine, tags=recorded.tracing.stamp({"app.name": "x"}))
    (request,), (made,) = (
        recorded.spans("POST /v1/executions"),
        recorded.spans("ff.create_execution"),
    )
    assert (
        f"{request.context.trace_id:032x}"
        == f"{made.context.trace_id:032x}"
        == caller.split("-")[1]
    )
    assert (request.attributes or {})["http.request.method"] == "POST"


async def test_a_task_that_waits_has_not_failed(memory: Engine, recorded: Recorded) -> None:
    app = App("memory://", engine=memory)
    watch(app, tracing=recorded.tracing)

    @app.task
    async def patient(ctx: Context) -> None:
        await ctx.sleep("1h")

    await patient.submit()
    worker = Worker(app)
    await worker.run_until_idle()
    await worker.stop()
    (span,) = recorded.spans("ff.task patient")
    assert span.status.status_code is StatusCode.UNSET and (span.attributes or {})["ff.waits"]


async def test_an_invalid_trace_tag_gives_no_link(memory: Engine, recorded: Recorded) -> None:
    app = App("memory://", engine=memory)
    watch(app, tracing=recorded.tracing)

    @app.task
    async def plain() -> None: ...

    async with app, Worker(app):
        await (await plain.submit(tags={TRACEPARENT: "nonsense"})).result()
    assert not recorded.spans("ff.task plain")[0].links


async def test_metrics_and_traces_go_together(
    memory: Engine, recorded: Recorded, metrics: Metrics
) -> None:
    engine = recorded.tracing.traced(instrumented(memory, metrics))
    _, handle = await running(engine)
    await engine.complete(handle)
    assert values(metrics, "ff_attempt_outcome_total") == {("default", "ok"): 1}
    assert recorded.spans("ff.complete")


async def test_disabled_tracing_has_no_cost(memory: Engine) -> None:
    app = App("memory://", engine=memory)
    assert await app.engine() is memory
    ident = await create(memory)
    assert await memory.get_execution_tag(ident, TRACEPARENT) is None


def test_every_operation_named_is_one_of_the_engine() -> None:
    assert [name for name in OPERATIONS if not hasattr(LocalEngineProtocol, name)] == []


def test_otel_variables_enable_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    assert tracing_from_environment() is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    assert isinstance(tracing_from_environment(), Tracing)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert tracing_from_environment() is None
