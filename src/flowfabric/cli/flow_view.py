"""The data of a flow diagram: nodes, edges, labels and counts, read through an engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from uuid import UUID

from msgspec import Struct

from flowfabric.cli.text import clean
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import NotFound
from flowfabric.model.flow import Edge
from flowfabric.model.flow_links import Member
from flowfabric.model.flow_views import EdgeGroupSnapshot, FlowSnapshot
from flowfabric.model.search import MAX_PAGE, ExecutionFilter
from flowfabric.rules.flows.flows import count_members, derived_state, passes_data

GONE = "gone"
MAX_LABEL = 24


class Appearance(Struct, frozen=True):
    """How a state is drawn: its symbol, its ASCII symbol, its style in a terminal, and its colour
    on light and dark pages."""

    symbol: str
    plain: str
    style: str
    light: str
    dark: str


APPEARANCES = {
    "completed": Appearance("✔", "+", "green", "#1a7f37", "#3fb950"),
    "active": Appearance("●", "*", "cyan", "#0969da", "#58a6ff"),
    "waiting": Appearance("○", "o", "blue", "#57606a", "#a8b3bf"),
    "resumable": Appearance("◐", "r", "blue", "#57606a", "#a8b3bf"),
    "waiting_children": Appearance("…", ".", "bright_black", "#8c959f", "#768390"),
    "delayed": Appearance("◷", "d", "blue", "#8250df", "#bc8cff"),
    "rate_limited": Appearance("≈", "q", "blue", "#8250df", "#bc8cff"),
    "suspended": Appearance("‖", "=", "magenta", "#8250df", "#bc8cff"),
    "failed": Appearance("✖", "x", "bold red", "#cf222e", "#f85149"),
    "expired": Appearance("!", "!", "red", "#cf222e", "#f85149"),
    "cancelled": Appearance("⊘", "/", "yellow", "#9a6700", "#d29922"),
    "skipped": Appearance("↷", "~", "yellow", "#9a6700", "#d29922"),
    GONE: Appearance("∅", "-", "bright_black", "#8c959f", "#768390"),
}
FLOW_STYLES = {
    "completed": "green",
    "running": "cyan",
    "open": "blue",
    "blocked": "blue",
    "failed": "bold red",
    "cancelled": "yellow",
}


def appearance(state: str) -> Appearance:
    return APPEARANCES.get(state, Appearance("?", "?", "bright_black", "#8c959f", "#768390"))


def truncate(text: str, size: int = MAX_LABEL) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"


class Node(Struct, frozen=True):
    key: str
    label: str
    state: str
    policy: str = ""
    tally: tuple[int, int] = (0, 0)
    """Upstreams that succeeded, and upstreams that did not."""


class Line(Struct, frozen=True):
    """`state` is staged, unsatisfied, satisfied or impossible."""

    up: str
    down: str
    state: str
    passes: bool


class FlowView(Struct, frozen=True):
    flow_id: UUID
    kind: str
    namespace: str
    state: str
    stored_state: str
    cancel_reason: str | None
    cancellation_policy: str | None
    created_at: int
    nodes: dict[str, Node]
    lines: list[Line]

    @property
    def counts(self) -> Counter[str]:
        found = Counter(node.state for node in self.nodes.values())
        return Counter({state: found[state] for state in [*APPEARANCES, *found] if found[state]})

    @property
    def shown_state(self) -> str:
        """`cancelled` if the flow was cancelled, else the state derived from its members."""
        return "cancelled" if self.stored_state == "cancelled" else self.state

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(line.up, line.down) for line in self.lines]


async def view_flow(engine: EngineProtocol, flow_id: UUID) -> FlowView:
    flow = await engine.describe_flow(flow_id)
    if flow is None:
        raise NotFound("flow", flow_id)
    members = await engine.flow_members(flow_id)
    edges = await engine.flow_edges(flow_id)
    summary = None if members else await engine.read_flow_summary(flow_id)
    last_seen = summary.public_flow_state if summary is not None else "open"
    return assemble(flow, members, edges, await _kinds(engine, flow_id), last_seen)


async def _kinds(engine: EngineProtocol, flow_id: UUID) -> dict[UUID, str]:
    """The tasks of the members."""
    kinds: dict[UUID, str] = {}
    cursor = None
    while True:
        page = await engine.find_executions(ExecutionFilter(flow=flow_id), MAX_PAGE, cursor)
        kinds.update((found.execution_uuid, found.task) for found in page.items)
        cursor = page.next_cursor
        if cursor is None:
            return kinds


def assemble(
    flow: FlowSnapshot,
    members: Iterable[Member],
    edges: Iterable[Edge],
    kinds: Mapping[UUID, str],
    last_seen: str = "open",
) -> FlowView:
    """`last_seen` is the state of a flow whose members have all been removed."""
    states = {
        member.execution_id: next(iter(count_members([member.public_state]))) for member in members
    }
    lines = []
    for edge in edges:
        for end in (edge.upstream_eid, edge.downstream_eid):
            states.setdefault(end, GONE)
        state = "staged" if edge.applied_at_ms is None else edge.dep_state or "unsatisfied"
        lines.append(
            Line(str(edge.upstream_eid), str(edge.downstream_eid), state, passes_data(edge))
        )
    groups = {group.downstream_execution_id.uuid: group for group in flow.edge_groups}
    labels = node_labels({ident: kinds.get(ident, "") for ident in states})
    nodes = {
        str(ident): Node(str(ident), labels[ident], state, *_policy(groups.get(ident)))
        for ident, state in sorted(states.items(), key=lambda item: item[0].bytes)
    }
    counted = Counter(state for state in states.values() if state != GONE)
    reason, policy = flow.cancel_reason, flow.cancellation_policy
    return FlowView(
        flow.flow_id,
        clean(flow.flow_kind),
        clean(flow.namespace),
        derived_state(counted) if counted else last_seen,
        flow.public_flow_state,
        None if reason is None else clean(reason),
        None if policy is None else clean(policy),
        flow.created_at,
        nodes,
        lines,
    )


def node_labels(kinds: Mapping[UUID, str]) -> dict[UUID, str]:
    """Label nodes by their kind, with the end of the id where the kind is ambiguous or default."""
    times = Counter(kinds.values())
    found = {}
    for ident, kind in kinds.items():
        tail = ident.hex[-6:]
        if kind in ("", "default"):
            found[ident] = tail
        elif times[kind] == 1:
            found[ident] = truncate(clean(kind))
        else:
            found[ident] = f"{truncate(clean(kind), MAX_LABEL - 5)} {ident.hex[-4:]}"
    return found


def _policy(group: EdgeGroupSnapshot | None) -> tuple[str, tuple[int, int]]:
    if group is None or not group.total_deps:
        return "", (0, 0)
    tally = (group.satisfied_count, group.failed_count + group.skipped_count)
    if group.policy.kind == "any_of":
        return f"any of {group.total_deps}", tally
    if group.policy.kind == "quorum":
        return f"{group.policy.k} of {group.total_deps}", tally
    return (f"all of {group.total_deps}" if group.total_deps > 1 else ""), tally
