"""The rows of flows by the specification, and their differences from a dump."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowfabric.verify.snapshot import Snapshot

from .flow_spec import Flows


def _pairs(spec: Flows, world: Snapshot) -> Iterator[tuple[str, Any, Any]]:
    stored = {
        edge.edge_id: edge.dep_state for several in world.inbound.values() for edge in several
    }
    yield "edges", {name: edge.dep for name, edge in spec.edges.items()}, stored
    counted = {
        child.uuid: (
            len(spec.inbound(child, "satisfied")),
            group.lost["fail"],
            group.lost["skip"],
            len(spec.inbound(child, "unsatisfied")),
            group.state,
            group.satisfied_at,
        )
        for child, group in spec.groups.items()
    }
    found = {
        key[2]: (
            g.success_count,
            g.fail_count,
            g.skip_count,
            g.running_count,
            g.group_state,
            g.satisfied_at_ms,
        )
        for key, g in world.groups.items()
    }
    yield "groups", counted, found
    queued = {child.uuid for child, group in spec.groups.items() if group.queued}
    yield "queue of losers", queued, {key[2] for key in world.cancelling}
    yield (
        "members",
        {i.uuid: f for i, f in spec.flow_of.items()},
        {key[1]: e.flow_id for key, e in world.executions.items()},
    )
    states = {key[1]: flow.public_flow_state for key, flow in world.flows.items()}
    flows = set(spec.flow_of.values())
    yield (
        "flows",
        {flow: "cancelled" if flow in spec.cancelled else "open" for flow in flows},
        states,
    )


def flow_differences(spec: Flows, world: Snapshot) -> list[str]:
    return [
        f"{what}: specified {wanted!r}, stored {is_!r}"
        for what, wanted, is_ in _pairs(spec, world)
        if wanted != is_
    ]
