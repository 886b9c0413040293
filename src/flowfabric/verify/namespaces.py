"""Checks of namespaces: no row refers to a row of another namespace."""

from __future__ import annotations

from collections.abc import Iterator

from flowfabric.rules.flows.flow_fields import namespace_of
from flowfabric.verify.snapshot import Key, Snapshot
from flowfabric.verify.violation import Check, Finding, invariant

Reference = tuple[Key, str | None, str, str | None]
"""A row, its namespace, what it refers to, and the namespace of that; None for a missing row."""


@invariant("I24")
def references_share_the_namespace(snapshot: Snapshot) -> Iterator[Finding]:
    """I24: rows that refer to each other are of the same namespace."""
    flows = {key: namespace_of(flow) for key, flow in snapshot.flows.items()}
    for key, events in snapshot.operations.items():
        for event in events:  # `events_match_the_state` compares the events of executions
            if key in flows and event["namespace"] != flows[key]:
                yield str(key[1]), f"event {event['event_id']} has namespace {event['namespace']!r}"
    spaces = {key: execution.namespace for key, execution in snapshot.executions.items()}
    for references in (_of_flows(snapshot, spaces, flows), _of_executions(snapshot, spaces)):
        for key, own, what, other in references:
            if None not in (own, other) and own != other:
                yield key, f"is of namespace {own!r}, its {what} of {other!r}"


def _of_flows(
    snapshot: Snapshot, spaces: dict[Key, str], flows: dict[Key, str]
) -> Iterator[Reference]:
    for key, member in snapshot.executions.items():
        if member.flow_id is not None:
            yield key, spaces[key], "flow", flows.get((key[0], member.flow_id))
    for key, flow in snapshot.flows.items():
        if flow.parent is not None:
            parent = (flow.parent.partition_index, flow.parent.uuid)
            yield parent, spaces.get(parent), "flow of children", flows[key]
    for key, events in snapshot.completions.items():
        for event in events:
            yield key, event["namespace"], "event's flow", flows.get((key[0], event["flow_id"]))


def _of_executions(snapshot: Snapshot, spaces: dict[Key, str]) -> Iterator[Reference]:
    for (partition, _, downstream), edges in snapshot.inbound.items():
        key = (partition, downstream)
        for edge in edges:
            yield key, spaces.get(key), "upstream", spaces.get((partition, edge.upstream_eid))
    for namespace, _, partition, ident, *_ in snapshot.idempotency:
        key = (partition, ident)
        yield key, spaces.get(key), "idempotency key", namespace
    waits = {found.suspension_id: spaces.get(key) for key, found in snapshot.suspensions.items()}
    owners = {}
    for key, waitpoints in snapshot.waitpoints.items():
        for waitpoint in waitpoints:
            owners[waitpoint.waitpoint_id] = own = spaces.get(key)
            bound = waitpoint.suspension_id
            yield key, own, "waitpoint's suspension", None if bound is None else waits.get(bound)
    for key, signals in snapshot.signals.items():
        for signal in signals:
            yield key, spaces.get(key), "signal's waitpoint", owners.get(signal.waitpoint_id)


NAMESPACE_CHECKS: dict[str, Check] = {"I24": references_share_the_namespace}
