"""OpenTelemetry spans of engine operations and of task runs. Needs the extra `otel`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, overload

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.proxy import Operation, wrapped
from flowfabric.errors import ConfigError, EngineError
from flowfabric.model.lease import Handle
from flowfabric.observe.instrument import TRACEPARENT
from flowfabric.observe.otel_env import resource
from flowfabric.sdk.context import Context
from flowfabric.sdk.exceptions import Parked

try:
    from opentelemetry import trace
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:
    raise ConfigError("traces need more libraries: pip install 'flowfabric[otel]'") from None

_HOLDER = (
    "progress",
    "observe_signals",
    "append_frame",
    "append_frames",
    "complete",
    "create_waitpoint",
    "delay",
)
OPERATIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("create_execution", "cancel_execution", "change_priority", "replay_execution"), ("args",)
    ),
    **dict.fromkeys(("claim_execution", "claim_resumed_execution", "issue_claim_grant"), ("args",)),
    **dict.fromkeys(
        ("issue_reclaim_grant", "reclaim_execution", "revoke_lease", "renew_lease"), ("args",)
    ),
    **dict.fromkeys(
        ("complete_execution", "fail_execution", "delay_execution", "record_spend"), ("args",)
    ),
    **dict.fromkeys(
        ("create_flow", "submit_flow", "add_execution_to_flow", "stage_dependency_edge"), ("args",)
    ),
    **dict.fromkeys(
        (
            "apply_dependency_to_child",
            "cancel_flow_header",
            "deliver_approval_signal",
            "deliver_signal",
        ),
        ("args",),
    ),
    **dict.fromkeys((*_HOLDER, "renew", "wait_children", "cancel", "fail", "suspend"), ("handle",)),
    **dict.fromkeys(
        ("describe_flow", "cancel_flow", "flow_members", "flow_edges", "list_edges"), ("flow_id",)
    ),
    **dict.fromkeys(
        ("describe_execution", "read_execution_context", "explain_execution"), ("execution_id",)
    ),
    "describe_edge": ("flow_id", "edge_id"),
    "set_edge_group_policy": ("flow_id", "execution_id"),
    "report_usage": ("handle", "budget_id"),
    "release_budget": ("budget_id", "execution_id"),
    "claim_for_worker": ("lane", "worker_id", "worker_instance_id"),
    "scan_eligible_executions": ("lane",),
    "block_route": ("execution_id",),
    "issue_grant_and_claim": ("execution_id", "lane"),
    "create_executions": (),
    "complete_many": (),
    "complete_and_claim": (),
}
"""The first arguments of each traced operation. Claims are omitted: most find no work."""
IDS = (
    "execution_id",
    "flow_id",
    "edge_id",
    "budget_id",
    "waitpoint_id",
    "signal_id",
    "lane_id",
    "worker_id",
)
_propagator = TraceContextTextMapPropagator()


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
        return (
            tags
            if not carrier or TRACEPARENT in tags
            else {**tags, TRACEPARENT: carrier["traceparent"]}
        )

    def _links(self, tags: Mapping[str, str]) -> list[Link]:
        found = (
            _propagator.extract({"traceparent": tags[TRACEPARENT]}) if TRACEPARENT in tags else None
        )
        context = trace.get_current_span(found).get_span_context() if found is not None else None
        return [Link(context)] if context is not None and context.is_valid else []

    @contextmanager
    def request(self, method: str, path: str, headers: Mapping[str, str]) -> Iterator[trace.Span]:
        """A span of an HTTP request, in the caller's trace. Header names must be in lower case."""
        attributes = {"http.request.method": method, "url.path": path}
        with self._span(
            f"{method} {path}", SpanKind.SERVER, attributes, context=_propagator.extract(headers)
        ) as span:
            yield span

    @contextmanager
    def _span(
        self, name: str, kind: SpanKind, attributes: Mapping[str, str | int], **more: Any
    ) -> Iterator[trace.Span]:
        """A span whose status names an error by its code only: messages may contain secrets.

        A suspension (`Parked`) is not an error.
        """
        with self._tracer.start_as_current_span(
            name,
            kind=kind,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
            **more,
        ) as span:
            try:
                yield span
            except Parked:
                span.set_attribute("ff.waits", True)
                raise
            except BaseException as error:
                span.set_status(
                    Status(
                        StatusCode.ERROR,
                        error.code if isinstance(error, EngineError) else type(error).__name__,
                    )
                )
                raise

    # ---- runs

    async def run(self, context: Context, call: Callable[[], Awaitable[Any]]) -> Any:
        """Middleware: a span of each attempt, linked to the trace of the submission."""
        attributes: dict[str, str | int] = {
            "ff.task": context.task,
            "ff.lane": context.lane,
            "ff.execution_id": str(context.execution_id),
            "ff.attempt_index": context.attempt,
        }
        with self._span(
            f"ff.task {context.task}",
            SpanKind.CONSUMER,
            attributes,
            links=self._links(context.tags),
        ):
            return await call()

    # ---- operations

    @overload
    def traced(self, engine: LocalEngineProtocol) -> LocalEngineProtocol: ...

    @overload
    def traced(self, engine: EngineProtocol) -> EngineProtocol: ...

    def traced(self, engine: EngineProtocol) -> EngineProtocol:
        """The engine with a span `ff.<operation>` around each operation."""

        def wrap(name: str, operation: Operation) -> Operation | None:
            wanted = OPERATIONS.get(name)
            return None if wanted is None else self._spanned(engine, name, wanted, operation)

        return wrapped(engine, wrap)

    def _spanned(
        self, engine: EngineProtocol, name: str, wanted: tuple[str, ...], operation: Operation
    ) -> Operation:
        called = tuple(inspect.signature(operation).parameters)[: len(wanted)]

        @wraps(operation)
        async def spanned(*args: Any, **named: Any) -> Any:
            with self._span(
                f"ff.{name}", SpanKind.CLIENT, {"ff.backend": engine.backend_label}
            ) as span:
                if span.is_recording():
                    span.set_attributes(
                        _ids(
                            engine,
                            wanted,
                            (*args, *(named.get(each) for each in called[len(args) :])),
                        )
                    )
                return await operation(*args, **named)

        return spanned


def _ids(
    engine: EngineProtocol, wanted: tuple[str, ...], given: tuple[Any, ...]
) -> dict[str, str | int]:
    """Only ids: never a payload, a token or a lease."""
    attributes: dict[str, str | int] = {}
    for name, value in zip(wanted, given, strict=False):
        if value is None:
            continue
        if name == "handle":
            attributes |= _of_handle(engine, value)
        elif name == "args":
            attributes |= {
                f"ff.{each}": str(found) for each in IDS if (found := getattr(value, each, None))
            }
        else:
            attributes[f"ff.{name}"] = str(value)
    return attributes


def _of_handle(engine: EngineProtocol, handle: object) -> dict[str, str | int]:
    if not isinstance(handle, Handle):
        return {}
    try:
        fields = engine.fields(handle)
    except EngineError:  # the operation itself raises it
        return {}
    return {
        "ff.execution_id": str(fields.execution_id),
        "ff.attempt_id": str(fields.attempt_id),
        "ff.lease_epoch": fields.lease_epoch,
    }
