"""The check of the borders: nothing refers to a row of another namespace."""

from __future__ import annotations

from collections.abc import Iterator

from flowfabric.rules.flows.flow_fields import namespace_of
from flowfabric.verify.snapshot import Key, Snapshot
from flowfabric.verify.violation import Check, Violation, about


def nothing_crosses_a_border(world: Snapshot) -> Iterator[Violation]:
    """I24: what belongs together belongs to one namespace."""
    spaces = {key: execution.namespace for key, execution in world.executions.items()}
    flows = {key: namespace_of(flow) for key, flow in world.flows.items()}
    yield from _members(world, spaces, flows)
    yield from _edges(world, spaces)
    yield from _parents(world, spaces, flows)
    yield from _events(world, flows)
    yield from _keys(world, spaces)
    yield from _signals(world, spaces)


def _crosses(key: Key, own: str | None, what: str, other: str | None) -> Iterator[Violation]:
    """What is not there has no namespace; whether it may be missing is another check's question."""
    if None not in (own, other) and own != other:
        yield Violation("I24", about(key), f"is of namespace {own!r}, its {what} of {other!r}")


def _members(world: Snapshot, spaces: dict[Key, str], flows: dict[Key, str]) -> Iterator[Violation]:
    for key, member in world.executions.items():
        if member.flow_id is not None:
            yield from _crosses(key, spaces[key], "flow", flows.get((key[0], member.flow_id)))


def _edges(world: Snapshot, spaces: dict[Key, str]) -> Iterator[Violation]:
    for (partition, _, downstream), edges in world.inbound.items():
        key = (partition, downstream)
        for edge in edges:
            yield from _crosses(
                key, spaces.get(key), "upstream", spaces.get((partition, edge.upstream_eid))
            )


def _parents(world: Snapshot, spaces: dict[Key, str], flows: dict[Key, str]) -> Iterator[Violation]:
    for key, flow in world.flows.items():
        if flow.parent is not None:
            parent = (flow.parent.partition_index, flow.parent.uuid)
            yield from _crosses(parent, spaces.get(parent), "flow of children", flows[key])


def _events(world: Snapshot, flows: dict[Key, str]) -> Iterator[Violation]:
    """Those of a flow: the events of an execution are compared where they are told."""
    for key, events in world.operations.items():
        for event in events:
            if key in flows and event["namespace"] != flows[key]:
                yield Violation(
                    "I24",
                    str(key[1]),
                    f"event {event['event_id']} has namespace {event['namespace']!r}",
                )
    for key, events in world.completions.items():
        for event in events:
            yield from _crosses(
                key, event["namespace"], "event's flow", flows.get((key[0], event["flow_id"]))
            )


def _keys(world: Snapshot, spaces: dict[Key, str]) -> Iterator[Violation]:
    for namespace, _, partition, ident, *_ in world.idempotency:
        yield from _crosses(
            (partition, ident), spaces.get((partition, ident)), "idempotency key", namespace
        )


def _signals(world: Snapshot, spaces: dict[Key, str]) -> Iterator[Violation]:
    """A waitpoint and a suspension are their execution's; what names one of another execution might cross."""
    owners = {
        waitpoint.waitpoint_id: key
        for key, several in world.waitpoints.items()
        for waitpoint in several
    }
    waits = {suspension.suspension_id: key for key, suspension in world.suspensions.items()}
    for key, signals in world.signals.items():
        for signal in signals:
            owner = owners.get(signal.waitpoint_id)
            yield from _crosses(
                key,
                spaces.get(key),
                "signal's waitpoint",
                None if owner is None else spaces.get(owner),
            )
    for key, waitpoints in world.waitpoints.items():
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


NAMESPACE_CHECKS: dict[str, Check] = {"I24": nothing_crosses_a_border}
