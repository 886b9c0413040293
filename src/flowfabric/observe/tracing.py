"""OpenTelemetry spans of engine operations and of task runs. Needs the extra `otel`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar, overload

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.proxy import Operation, wrapped
from flowfabric.errors import ConfigError, EngineError
from flowfabric.model.lease import Handle
from flowfabric.observe.instrument import TRACEPARENT, resource
from flowfabric.sdk.context import Context
from flowfabric.sdk.exceptions import Parked

try:
    from opentelemetry import trace
    from opentelemetry.context import Context as TraceContext
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:
    raise ConfigError("traces need more libraries: pip install 'flowfabric[otel]'") from None

_TRACED = """
    create_execution cancel_execution change_priority replay_execution claim_execution
    claim_resumed_execution issue_claim_grant issue_reclaim_grant reclaim_execution revoke_lease
    renew_lease complete_execution fail_execution delay_execution record_spend create_flow
    submit_flow add_execution_to_flow stage_dependency_edge apply_dependency_to_child
    cancel_flow_header deliver_approval_signal deliver_signal progress observe_signals
    append_frame append_frames complete create_waitpoint delay renew wait_children cancel fail
    suspend describe_flow cancel_flow flow_members flow_edges list_edges describe_execution
    read_execution_context explain_execution describe_edge set_edge_group_policy report_usage
    release_budget claim_for_worker scan_eligible_executions block_route issue_grant_and_claim
    create_executions complete_many complete_and_claim
"""
OPERATIONS = frozenset(_TRACED.split())
"""The traced operations. Claims are omitted: most find no work."""
IDS = (
    *("execution_id", "flow_id", "edge_id", "budget_id"),
    *("waitpoint_id", "signal_id", "lane_id", "worker_id"),
)
"""The fields of a parameter `args` that a span shows."""
_SHOWN = {
    **{name: name for name in (*IDS, "lane", "worker_instance_id")},
    "execution": "execution_id",
    "downstream_execution_id": "execution_id",
}
"""The attribute of each parameter that a span shows."""
_propagator = TraceContextTextMapPropagator()


P = ParamSpec("P")
R = TypeVar("R")


class Tracing:
    """Tracing of an app: `watch(app, tracing=Tracing())`.

    OpenTelemetry's variables, or a provider, determine where spans are sent.
    """

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("flowfabric", tracer_provider=provider)

    @classmethod
    def exported(cls) -> Tracing:
        """Export spans in batches to OTEL_EXPORTER_OTLP_ENDPOINT."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=resource())
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return cls(provider)

    # ---- submissions and requests

    def stamp(self, tags: Mapping[str, str]) -> Mapping[str, str]:
        """Add the current trace to the tags of a submission."""
        carrier: dict[str, str] = {}
        _propagator.inject(carrier)
        if not carrier or TRACEPARENT in tags:
            return tags
        return {**tags, TRACEPARENT: carrier["traceparent"]}

    def _links(self, tags: Mapping[str, str]) -> list[Link]:
        if TRACEPARENT not in tags:
            return []
        found = _propagator.extract({"traceparent": tags[TRACEPARENT]})
        context = trace.get_current_span(found).get_span_context()
        return [Link(context)] if context.is_valid else []

    @contextmanager
    def request(self, method: str, path: str, headers: Mapping[str, str]) -> Iterator[trace.Span]:
        """A span of an HTTP request, in the caller's trace. Header names must be in lower case."""
        attributes = {"http.request.method": method, "url.path": path}
        caller = _propagator.extract(headers)
        with self._span(f"{method} {path}", SpanKind.SERVER, attributes, caller) as span:
            yield span

    @contextmanager
    def _span(
        self,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, str | int],
        context: TraceContext | None = None,
        links: Sequence[Link] = (),
    ) -> Iterator[trace.Span]:
        """A span whose status names an error by its code only: messages may contain secrets.

        A suspension (`Parked`) is not an error.
        """
        with self._tracer.start_as_current_span(
            name,
            context,
            kind,
            attributes,
            links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Parked:
                span.set_attribute("ff.waits", True)
                raise
            except BaseException as error:
                code = error.code if isinstance(error, EngineError) else type(error).__name__
                span.set_status(Status(StatusCode.ERROR, code))
                raise

    # ---- runs

    async def run(self, context: Context, call: Callable[[], Awaitable[R]]) -> R:
        """Middleware: a span of each attempt, linked to the trace of the submission."""
        attributes: dict[str, str | int] = {
            "ff.task": context.task,
            "ff.lane": context.lane,
            "ff.execution_id": str(context.execution_id),
            "ff.attempt_index": context.attempt,
        }
        name, links = f"ff.task {context.task}", self._links(context.tags)
        with self._span(name, SpanKind.CONSUMER, attributes, links=links):
            return await call()

    # ---- operations

    @overload
    def traced(self, engine: LocalEngineProtocol) -> LocalEngineProtocol: ...

    @overload
    def traced(self, engine: EngineProtocol) -> EngineProtocol: ...

    def traced(self, engine: EngineProtocol) -> EngineProtocol:
        """The engine with a span `ff.<operation>` around each operation."""

        def wrap(name: str, operation: Operation) -> Operation | None:
            return self._spanned(engine, name, operation) if name in OPERATIONS else None

        return wrapped(engine, wrap)

    def _spanned(
        self, engine: EngineProtocol, name: str, operation: Callable[P, Awaitable[R]]
    ) -> Callable[P, Awaitable[R]]:
        parameters = tuple(inspect.signature(operation).parameters)

        @wraps(operation)
        async def spanned(*args: P.args, **named: P.kwargs) -> R:
            backend = {"ff.backend": engine.backend_label}
            with self._span(f"ff.{name}", SpanKind.CLIENT, backend) as span:
                if span.is_recording():
                    given = dict(zip(parameters, args, strict=False)) | named
                    span.set_attributes(_ids(engine, given))
                return await operation(*args, **named)

        return spanned


def _ids(engine: EngineProtocol, given: Mapping[str, object]) -> dict[str, str | int]:
    """Only ids: never a payload, a token or a lease."""
    attributes: dict[str, str | int] = {}
    for name, value in given.items():
        if isinstance(value, Handle):
            attributes |= _of_handle(engine, value)
        elif name == "args":
            attributes |= {
                f"ff.{each}": str(found) for each in IDS if (found := getattr(value, each, None))
            }
        elif name in _SHOWN and value is not None:
            attributes[f"ff.{_SHOWN[name]}"] = str(value)
    return attributes


def _of_handle(engine: EngineProtocol, handle: Handle) -> dict[str, str | int]:
    try:
        fields = engine.fields(handle)
    except EngineError:  # the operation itself raises it
        return {}
    return {
        "ff.execution_id": str(fields.execution_id),
        "ff.attempt_id": str(fields.attempt_id),
        "ff.lease_epoch": fields.lease_epoch,
    }
