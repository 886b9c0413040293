"""Checks of namespaces: no row refers to a row of another namespace."""

from __future__ import annotations

from collections.abc import Iterator

from flowfabric.rules.flows.flow_fields import namespace_of
from flowfabric.verify.snapshot import Key, Snapshot
from flowfabric.verify.violation import Check, Violation, violation


def references_share_the_namespace(snapshot: Snapshot) -> Iterator[Violation]:
    """I24: rows that refer to each other are of the same namespace."""
    spaces = {key: execution.namespace for key, execution in snapshot.executions.items()}
    flows = {key: namespace_of(flow) for key, flow in snapshot.flows.items()}
    yield from _members(snapshot, spaces, flows)
    yield from _edges(snapshot, spaces)
    yield from _parents(snapshot, spaces, flows)
    yield from _events(snapshot, flows)
    yield from _keys(snapshot, spaces)
    yield from _signals(snapshot, spaces)


def _crosses(key: Key, own: str | None, what: str, other: str | None) -> Iterator[Violation]:
    """Compare two namespaces; None, for a missing row, is the subject of other checks."""
    if None not in (own, other) and own != other:
        yield violation("I24", key, f"is of namespace {own!r}, its {what} of {other!r}")


def _members(
    snapshot: Snapshot, spaces: dict[Key, str], flows: dict[Key, str]
) -> Iterator[Violation]:
    for key, member in snapshot.executions.items():
        if member.flow_id is not None:
            yield from _crosses(key, spaces[key], "flow", flows.get((key[0], member.flow_id)))


def _edges(snapshot: Snapshot, spaces: dict[Key, str]) -> Iterator[Violation]:
    for (partition, _, downstream), edges in snapshot.inbound.items():
        key = (partition, downstream)
        for edge in edges:
            yield from _crosses(
                key, spaces.get(key), "upstream", spaces.get((partition, edge.upstream_eid))
            )


def _parents(
    snapshot: Snapshot, spaces: dict[Key, str], flows: dict[Key, str]
) -> Iterator[Violation]:
    for key, flow in snapshot.flows.items():
        if flow.parent is not None:
            parent = (flow.parent.partition_index, flow.parent.uuid)
            yield from _crosses(parent, spaces.get(parent), "flow of children", flows[key])


def _events(snapshot: Snapshot, flows: dict[Key, str]) -> Iterator[Violation]:
    """Events of flows; `events_match_the_state` compares the events of executions."""
    for key, events in snapshot.operations.items():
        for event in events:
            if key in flows and event["namespace"] != flows[key]:
                yield Violation(
                    "I24",
                    str(key[1]),
                    f"event {event['event_id']} has namespace {event['namespace']!r}",
                )
    for key, events in snapshot.completions.items():
        for event in events:
            yield from _crosses(
                key, event["namespace"], "event's flow", flows.get((key[0], event["flow_id"]))
            )


def _keys(snapshot: Snapshot, spaces: dict[Key, str]) -> Iterator[Violation]:
    for namespace, _, partition, ident, *_ in snapshot.idempotency:
        yield from _crosses(
            (partition, ident), spaces.get((partition, ident)), "idempotency key", namespace
        )


def _signals(snapshot: Snapshot, spaces: dict[Key, str]) -> Iterator[Violation]:
    """Signals and waitpoints that name a waitpoint or suspension of another execution."""
    owners = {
        waitpoint.waitpoint_id: key
        for key, several in snapshot.waitpoints.items()
        for waitpoint in several
    }
    waits = {suspension.suspension_id: key for key, suspension in snapshot.suspensions.items()}
    for key, signals in snapshot.signals.items():
        for signal in signals:
            owner = owners.get(signal.waitpoint_id)
            yield from _crosses(
                key,
                spaces.get(key),
                "signal's waitpoint",
                None if owner is None else spaces.get(owner),
            )
    for key, waitpoints in snapshot.waitpoints.items():
        for waitpoint in waitpoints:
            waiting = (
                None if waitpoint.suspension_id is None else waits.get(waitpoint.suspension_id)
            )
            yield from _crosses(
                key,
                spaces.get(key),
                "waitpoint's suspension",
                None if waiting is None else spaces.get(waiting),
            )


NAMESPACE_CHECKS: dict[str, Check] = {"I24": references_share_the_namespace}
