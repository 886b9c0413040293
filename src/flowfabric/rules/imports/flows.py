"""Flows, their edges and edge groups, and cancels in progress."""

from __future__ import annotations

from collections import defaultdict
from uuid import UUID

from flowfabric.model.flow import stored_edge_policy
from flowfabric.rules.imports.original import (
    Imported,
    Original,
    Row,
    copied,
    json_of,
    text_of,
    uuid_of,
)

FLOW, EDGE, GROUP = "ff_flow_core", "ff_edge", "ff_edge_group"
Group = tuple[int, UUID, UUID]


def import_flows(original: Original, made: Imported) -> None:
    edges: dict[Group, list[Row]] = defaultdict(list)
    for row in original.rows(EDGE):
        edge = made.add(EDGE, _edge(row))
        edges[edge["partition_key"], edge["flow_id"], edge["downstream_eid"]].append(edge)
    counted: dict[tuple[int, UUID], int] = defaultdict(int)
    for (partition, flow, _), several in edges.items():
        counted[partition, flow] += len(several)
    for row in original.rows(FLOW):
        made.add(FLOW, _flow(row, counted[row["partition_key"], uuid_of(row["flow_id"])], made))
    stored = {
        (row["partition_key"], uuid_of(row["flow_id"]), uuid_of(row["downstream_eid"])): row
        for row in original.rows(GROUP)
    }
    for key in sorted({*stored, *edges}, key=str):
        _group(key, stored.get(key), edges.get(key, []), made)
    _cancels(original, made)


def _flow(row: Row, edges: int, made: Imported) -> Row:
    raw = json_of(row["raw_fields"])
    if raw.get("edge_count", edges) != edges:
        made.changed(
            FLOW, uuid_of(row["flow_id"]), f"it has {edges} edges, not {raw['edge_count']}"
        )
        raw["edge_count"] = edges
    return {
        **copied(row, "partition_key", "graph_revision", "public_flow_state"),
        **copied(row, "created_at_ms", "terminal_at_ms"),
        "flow_id": uuid_of(row["flow_id"]),
        "raw_fields": text_of(raw),
    }


def _edge(row: Row) -> Row:
    policy = json_of(row["policy"])
    return {
        **copied(row, "partition_key", "policy", "policy_version"),
        **{name: uuid_of(row[name]) for name in ("flow_id", "edge_id", "upstream_eid")},
        "downstream_eid": uuid_of(row["downstream_eid"]),
        "edge_state": str(policy.get("edge_state") or "pending"),
        "applied_at_ms": policy.get("applied_at_ms"),
    }


def _group(key: Group, row: Row | None, edges: list[Row], made: Imported) -> None:
    """The original counts ended upstreams in the group only: which edges they are follows here."""
    applied = [edge for edge in edges if edge["applied_at_ms"] is not None]
    if row is None and not applied:
        return
    good = 0 if row is None else row["success_count"]
    lost = 0 if row is None else row["fail_count"] + row["skip_count"]
    outcomes = {
        edge["edge_id"]: made.executions.get((key[0], edge["upstream_eid"]), {}).get(
            "terminal_outcome", "none"
        )
        for edge in applied
    }
    for edge in applied:
        outcome = outcomes[edge["edge_id"]]
        edge["dep_state"] = "unsatisfied"
        if outcome == "success" and good:
            edge["dep_state"], good = "satisfied", good - 1
        elif outcome not in ("none", "success") and lost:
            edge["dep_state"], lost = "impossible", lost - 1
        if edge["dep_state"] != "unsatisfied":
            edge["last_resolved_at_ms"] = edge["applied_at_ms"]
    found = _counted(applied, outcomes)
    policy = '{"kind":"all_of"}' if row is None else row["policy"]
    if row is not None and any(row[name] != number for name, number in found.items()):
        counts = ", ".join(f"{name} {number}" for name, number in found.items())
        made.changed(GROUP, key[2], f"its edges give other counts: {counts}")
    satisfied = found["success_count"]
    impossible = found["fail_count"] + found["skip_count"]
    state = _group_state(policy, satisfied, impossible, len(applied))
    siblings = ("cancel_siblings_pending_flag", "cancel_siblings_pending_members")
    made.add(
        GROUP,
        {
            "partition_key": key[0],
            "flow_id": key[1],
            "downstream_eid": key[2],
            "policy": policy,
            "k_target": 0 if row is None else row["k_target"],
            **found,
            "group_state": state,
            **({} if row is None else copied(row, *siblings)),
        },
    )


def _counted(applied: list[Row], outcomes: dict[UUID, str]) -> dict[str, int]:
    def number(state: str, *, skipped: bool | None = None) -> int:
        return sum(
            edge["dep_state"] == state and skipped in (None, outcomes[edge["edge_id"]] == "skipped")
            for edge in applied
        )

    return {
        "success_count": number("satisfied"),
        "fail_count": number("impossible", skipped=False),
        "skip_count": number("impossible", skipped=True),
        "running_count": number("unsatisfied"),
    }


def _group_state(policy_text: str, good: int, lost: int, total: int) -> str:
    policy = stored_edge_policy(policy_text)
    if policy.kind == "all_of":
        done, impossible = bool(total) and good == total, bool(lost)
    else:
        done, impossible = good >= policy.k, bool(good or lost) and lost > total - policy.k
    return "satisfied" if done else "impossible" if impossible else "pending"


def _cancels(original: Original, made: Imported) -> None:
    for table in ("ff_cancel_backlog", "ff_cancel_backlog_member"):
        for row in original.rows(table):
            made.add(table, {**row, "flow_id": uuid_of(row["flow_id"])})
    groups = {
        (row["partition_key"], row["flow_id"], row["downstream_eid"]): row
        for row in made.rows[GROUP]
    }
    queued = set()
    for row in original.rows("ff_pending_cancel_groups"):
        flow, downstream = uuid_of(row["flow_id"]), uuid_of(row["downstream_eid"])
        key = row["partition_key"], flow, downstream
        group = groups.get(key)
        if group is None or not group.get("cancel_siblings_pending_flag"):
            made.left_out("ff_pending_cancel_groups", downstream, "its group cancels no siblings")
            continue
        queued.add(key)
        made.add("ff_pending_cancel_groups", {**row, "flow_id": flow, "downstream_eid": downstream})
    for key, group in groups.items():
        policy = stored_edge_policy(group["policy"])
        flagged = group.get("cancel_siblings_pending_flag")
        if flagged and (
            key not in queued or group["group_state"] == "pending" or not policy.cancels
        ):
            group |= {"cancel_siblings_pending_flag": 0, "cancel_siblings_pending_members": "[]"}
            made.rows["ff_pending_cancel_groups"] = [
                row
                for row in made.rows["ff_pending_cancel_groups"]
                if (row["partition_key"], row["flow_id"], row["downstream_eid"]) != key
            ]
            made.changed(GROUP, key[2], "cancels no siblings: its edges do not decide it")
    for row in original.rows("ff_cancel_dispatch_outbox"):
        ident = uuid_of(row["target_exec_id"])
        made.left_out("ff_cancel_dispatch_outbox", ident, "cancel the execution, if it still runs")
