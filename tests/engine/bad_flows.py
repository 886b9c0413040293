"""What the operations on flows must refuse: (name, field the error names, call)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from msgspec import structs

from flowfabric.model.flow import (
    AddExecutionToFlowArgs,
    ApplyDependencyArgs,
    CancelFlowArgs,
    CreateFlowArgs,
    EdgePolicy,
    GraphEdge,
    ResolveDependencyArgs,
    StageDependencyEdgeArgs,
    SubmitFlowArgs,
    WaitTimeout,
)
from flowfabric.model.flow_views import Outgoing

from .bad_common import (
    IDS,
    LIMITS,
    LONE,
    NAMES,
    PARTITIONS,
    TAG_KEYS,
    TAGS,
    TEXTS,
    TIMES,
    Bad,
    Subject,
    each,
    fields_of,
)
from .flow_helpers import Graph

FLOW_IDS = ("", "x", 5, b"x" * 16, None, LONE)
EDGE_TEXTS = (*TEXTS, "x" * 4_097)
BY_FLOW = (
    "describe_flow",
    "flow_members",
    "flow_edges",
    "read_flow_summary",
    "project_flow_summary",
    "cancel_flow",
)


def _ids() -> dict[str, Any]:
    graph = Graph()
    return {
        "flow_id": graph.flow,
        "edge_id": uuid4(),
        "upstream_execution_id": graph.mint("a"),
        "downstream_execution_id": graph.mint("b"),
    }


def _adding(s: Subject, **said: Any) -> AddExecutionToFlowArgs:
    return AddExecutionToFlowArgs(**{"flow_id": uuid4(), "execution_id": s.ready, **said})


def _staging(s: Subject, **said: Any) -> StageDependencyEdgeArgs:
    return StageDependencyEdgeArgs(**{**_ids(), "expected_graph_revision": 0, **said})


def _applying(s: Subject, **said: Any) -> ApplyDependencyArgs:
    return ApplyDependencyArgs(**{**_ids(), **said})


def _resolving(s: Subject, **said: Any) -> ResolveDependencyArgs:
    return ResolveDependencyArgs(**{**_ids(), "upstream_outcome": "success", **said})


def building() -> Iterator[Bad]:
    yield from fields_of(
        "create_flow",
        lambda s, **said: CreateFlowArgs(**{"flow_id": uuid4(), **said}),
        flow_id=FLOW_IDS,
        flow_kind=NAMES[1:],
        namespace=NAMES,
        now=TIMES,
    )
    yield from fields_of(
        "add_execution_to_flow", _adding, flow_id=FLOW_IDS, execution_id=IDS, now=TIMES
    )
    ends = {
        "flow_id": FLOW_IDS,
        "edge_id": FLOW_IDS,
        "upstream_execution_id": IDS,
        "downstream_execution_id": IDS,
    }
    yield from fields_of(
        "stage_dependency_edge",
        _staging,
        **ends,
        expected_graph_revision=(-1, True, "0", 1.5, None, 2**63),
        dependency_kind=(*EDGE_TEXTS, None),
        data_passing_ref=EDGE_TEXTS,
        now=TIMES,
    )
    yield from fields_of("apply_dependency_to_child", _applying, **ends, now=TIMES)
    yield from fields_of("resolve_dependency", _resolving, **ends, upstream_outcome=(*TEXTS, None))
    policies = (None, 5, "all_of", {"kind": "all_of"})
    yield from each(
        "set_edge_group_policy",
        "policy",
        policies,
        lambda s, v: s.engine.set_edge_group_policy(uuid4(), s.ready, v),
    )
    yield from each(
        "set_edge_group_policy",
        "flow_id",
        FLOW_IDS,
        lambda s, v: s.engine.set_edge_group_policy(v, s.ready, EdgePolicy()),
    )
    yield from each(
        "set_edge_group_policy",
        "downstream_execution_id",
        IDS,
        lambda s, v: s.engine.set_edge_group_policy(uuid4(), v, EdgePolicy()),
    )
    for method in ("get_flow_tag", "set_flow_tag"):
        more = ("v",) if method == "set_flow_tag" else ()
        yield from each(
            method,
            "tag",
            TAG_KEYS,
            lambda s, v, m=method, more=more: getattr(s.engine, m)(uuid4(), v, *more),
        )
    yield from each(
        "set_flow_tag",
        "tags",
        (None, 5, LONE, "x" * 20_000),
        lambda s, v: s.engine.set_flow_tag(uuid4(), "a.b", v),
    )


def _graph(s: Subject, **said: Any) -> SubmitFlowArgs:
    return structs.replace(Graph().args("a>b"), **{"edges": (), **said})


def submitting() -> Iterator[Bad]:
    yield from fields_of(
        "submit_flow",
        _graph,
        flow_id=FLOW_IDS,
        flow_kind=NAMES[1:],
        namespace=NAMES,
        now=TIMES,
        tags=TAGS,
        nodes=(None, 5, [], ()),
        edges=(None, 5, [5], ["a>b"]),
        policies=(None, 5, []),
    )
    yield from each(
        "submit_flow",
        "args",
        (None, 5, "x"),
        lambda s, v: s.engine.submit_flow(_graph(s, nodes=[v])),
    )

    def with_edge(s: Subject, **said: Any) -> Any:
        graph = Graph()
        args = graph.args("a>b")
        edge = GraphEdge(**{"upstream": graph["a"], "downstream": graph["b"], **said})
        return s.engine.submit_flow(
            SubmitFlowArgs(flow_id=graph.flow, nodes=args.nodes, edges=[edge])
        )

    bad = {
        "upstream": IDS,
        "downstream": IDS,
        "data_passing_ref": EDGE_TEXTS,
        "dependency_kind": (*EDGE_TEXTS, None),
    }
    for field, values in {**bad, "edge_id": FLOW_IDS[:4]}.items():
        yield from each(
            "submit_flow", field, values, lambda s, v, field=field: with_edge(s, **{field: v})
        )

    def with_policy(s: Subject, policy: Any) -> Any:
        graph = Graph()
        return s.engine.submit_flow(graph.args("a>b", {"b": policy}))

    yield from each("submit_flow", "polic", (None, 5, "any_of"), with_policy)


def reading() -> Iterator[Bad]:
    for method in BY_FLOW:
        yield from each(method, "flow_id", FLOW_IDS, lambda s, v, m=method: getattr(s.engine, m)(v))
    yield from each(
        "project_flow_summary",
        "now",
        TIMES,
        lambda s, v: s.engine.project_flow_summary(uuid4(), now=v),
    )
    yield from each(
        "describe_edge", "edge_id", FLOW_IDS, lambda s, v: s.engine.describe_edge(uuid4(), v)
    )
    yield from each(
        "list_edges",
        "direction",
        (None, 5, "outgoing"),
        lambda s, v: s.engine.list_edges(uuid4(), v),
    )
    yield from each(
        "list_edges", "from_node", IDS, lambda s, v: s.engine.list_edges(uuid4(), Outgoing(v))
    )
    yield from each(
        "list_flows", "partition_key", PARTITIONS[2:], lambda s, v: s.engine.list_flows(v)
    )
    yield from each("list_flows", "cursor", FLOW_IDS[:4], lambda s, v: s.engine.list_flows(0, v))
    yield from each("list_flows", "limit", LIMITS, lambda s, v: s.engine.list_flows(0, None, v))


def cancelling() -> Iterator[Bad]:
    yield from each(
        "cancel_flow",
        "policy",
        ("x" * 257, LONE, None, 5),
        lambda s, v: s.engine.cancel_flow(uuid4(), v),
    )
    yield from each(
        "cancel_flow", "wait", (5, "x", True), lambda s, v: s.engine.cancel_flow(uuid4(), wait=v)
    )
    waits = (-1, "5", None, True, 1.5, 2**63)
    yield from each(
        "cancel_flow",
        "timeout_ms",
        waits,
        lambda s, v: s.engine.cancel_flow(uuid4(), wait=WaitTimeout(v)),
    )
    yield from fields_of(
        "cancel_flow_header",
        lambda s, **said: CancelFlowArgs(**{"flow_id": uuid4(), **said}),
        flow_id=FLOW_IDS,
        reason=(*TEXTS, None),
        cancellation_policy=("x" * 257, LONE, None, 5),
        now=TIMES,
    )
    yield from each(
        "ack_cancel_member",
        "flow_id",
        FLOW_IDS,
        lambda s, v: s.engine.ack_cancel_member(v, s.ready),
    )
    yield from each(
        "ack_cancel_member",
        "execution_id",
        IDS,
        lambda s, v: s.engine.ack_cancel_member(uuid4(), v),
    )
    for method in ("drain_sibling_cancel_group", "reconcile_sibling_cancel_group"):
        yield from each(
            method, "flow_id", FLOW_IDS, lambda s, v, m=method: getattr(s.engine, m)(v, uuid4())
        )
        yield from each(
            method,
            "downstream_eid",
            FLOW_IDS,
            lambda s, v, m=method: getattr(s.engine, m)(uuid4(), v),
        )
    for method in (
        "dispatch_sibling_cancels",
        "reconcile_sibling_cancels",
        "reconcile_cancel_backlog",
    ):
        yield from each(method, "limit", LIMITS, lambda s, v, m=method: getattr(s.engine, m)(v))
    yield from each(
        "dispatch_completions", "wanted", (5, "ns"), lambda s, v: s.engine.dispatch_completions(v)
    )
    yield from each(
        "dispatch_completions",
        "grace_ms",
        (-1, "5", None),
        lambda s, v: s.engine.dispatch_completions(None, v),
    )
