"""A snapshot of a store: typed rows, grouped by execution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from msgspec import Struct

from flowfabric.model.attempt import Attempt
from flowfabric.model.budget import BudgetPolicy
from flowfabric.model.execution import Execution
from flowfabric.model.flow import Edge, EdgeGroup, Flow
from flowfabric.model.lease import Grant
from flowfabric.model.quota import LimitScope, QuotaPolicy
from flowfabric.model.stream import StreamMeta
from flowfabric.model.waitpoint import Signal, Suspension, Waitpoint
from flowfabric.store.port import Row
from flowfabric.store.schema import TABLES

TABLES_READ = (
    "ff_exec_core",
    "ff_attempt",
    "ff_claim_grant",
    "ff_idempotency",
    "ff_lease_event",
    "ff_completion_event",
    "ff_operator_event",
    "ff_flow_core",
    "ff_edge",
    "ff_edge_group",
    "ff_pending_cancel_groups",
    "ff_cancel_backlog",
    "ff_suspension_current",
    "ff_waitpoint_pending",
    "ff_signal",
    "ff_signal_event",
    "ff_budget_policy",
    "ff_budget_usage",
    "ff_budget_usage_by_exec",
    "ff_quota_policy",
    "ff_quota_window",
    "ff_quota_admitted",
    "ff_limit_scope",
    "ff_lane_gate",
    "ff_stream_meta",
    "ff_stream_frame",
    "ff_stream_summary",
)
Key = tuple[int, UUID]
StreamKey = tuple[int, UUID, int]
GroupKey = tuple[int, UUID, UUID]
Event = dict[str, Any]
T = TypeVar("T")
K = TypeVar("K")


class FrameRow(Struct, frozen=True):
    """A row of `ff_stream_frame`."""

    partition_key: int
    execution_id: UUID
    attempt_index: int
    ts_ms: int
    seq: int
    mode: str
    number: int
    mode_number: int
    client_seq: int | None
    expires_at_ms: int | None
    created_at_ms: int
    fields: str

    @property
    def stream(self) -> StreamKey:
        return self.partition_key, self.execution_id, self.attempt_index

    @property
    def place(self) -> tuple[int, int]:
        return self.ts_ms, self.seq

    @property
    def id(self) -> str:
        return f"{self.ts_ms}-{self.seq}"


class Snapshot(Struct, frozen=True):
    """Executions and their rows by key; events and frames are in the order of their numbers.

    - `inbound`: edges by edge group; `cancelling`: groups with siblings to cancel;
      `cancel_backlog`: flows with members to cancel.
    - `usage` and `accounts`: per budget and dimension, the total usage and the part charged to
      executions; `charged`: the budgets and executions of those charges.
    - `slots`: quota slots acquired by a caller; `scopes`: attached limits; `gates`: queues of a
      namespace in a lane behind limits.
    - `summaries`: document and version.
    """

    executions: dict[Key, Execution]
    attempts: dict[Key, list[Attempt]]
    grants: list[Grant]
    idempotency: list[Row]
    leases: dict[Key, list[Event]]
    completions: dict[Key, list[Event]]
    operations: dict[Key, list[Event]]
    flows: dict[Key, Flow]
    groups: dict[GroupKey, EdgeGroup]
    inbound: dict[GroupKey, list[Edge]]
    cancelling: set[GroupKey]
    cancel_backlog: set[Key]
    suspensions: dict[Key, Suspension]
    waitpoints: dict[Key, list[Waitpoint]]
    signals: dict[Key, list[Signal]]
    signal_events: dict[Key, list[Event]]
    budgets: dict[UUID, BudgetPolicy]
    usage: dict[tuple[UUID, str], int]
    accounts: dict[tuple[UUID, str], int]
    charged: set[tuple[UUID, Key]]
    quotas: dict[UUID, QuotaPolicy]
    scopes: list[LimitScope]
    quota_windows: list[Row]
    slots: list[Row]
    gates: set[tuple[str, str, str]]
    streams: dict[StreamKey, StreamMeta]
    frames: dict[StreamKey, list[FrameRow]]
    summaries: dict[StreamKey, tuple[str, int]]

    @property
    def event_channels(self) -> tuple[dict[Key, list[Event]], ...]:
        return self.leases, self.completions, self.operations, self.signal_events


def snapshot_of(tables: Mapping[str, list[Row]]) -> Snapshot:
    attempts = sorted(tables["ff_attempt"], key=lambda row: row[2])
    frames = sorted(tables["ff_stream_frame"], key=lambda row: row[6])
    edges = (Edge(*row) for row in tables["ff_edge"])
    return Snapshot(
        {(row[0], row[1]): Execution(*row) for row in tables["ff_exec_core"]},
        _grouped((Attempt(*row) for row in attempts), _owner),
        [Grant(*row) for row in tables["ff_claim_grant"]],
        list(tables["ff_idempotency"]),
        _events(tables, "ff_lease_event"),
        _events(tables, "ff_completion_event"),
        _events(tables, "ff_operator_event"),
        {(row[0], row[1]): Flow(*row) for row in tables["ff_flow_core"]},
        {(row[0], row[1], row[2]): EdgeGroup(*row) for row in tables["ff_edge_group"]},
        _grouped(edges, lambda edge: (edge.partition_key, edge.flow_id, edge.downstream_eid)),
        {(row[0], row[1], row[2]) for row in tables["ff_pending_cancel_groups"]},
        {(row[0], row[1]) for row in tables["ff_cancel_backlog"]},
        {(row[0], row[1]): Suspension(*row) for row in tables["ff_suspension_current"]},
        _grouped((Waitpoint(*row) for row in tables["ff_waitpoint_pending"]), _owner),
        _grouped((Signal(*row) for row in tables["ff_signal"]), _owner),
        _events(tables, "ff_signal_event"),
        {row[0]: BudgetPolicy(*row) for row in tables["ff_budget_policy"]},
        {(row[0], row[1]): row[3] for row in tables["ff_budget_usage"]},
        _accounts(tables["ff_budget_usage_by_exec"]),
        {(row[3], (row[0], row[1])) for row in tables["ff_budget_usage_by_exec"]},
        {row[0]: QuotaPolicy(*row) for row in tables["ff_quota_policy"]},
        [LimitScope(*row) for row in tables["ff_limit_scope"]],
        list(tables["ff_quota_window"]),
        list(tables["ff_quota_admitted"]),
        {(row[0], row[1], row[2]) for row in tables["ff_lane_gate"]},
        {(row[0], row[1], row[2]): StreamMeta(*row) for row in tables["ff_stream_meta"]},
        _grouped((FrameRow(*row) for row in frames), lambda frame: frame.stream),
        {(row[0], row[1], row[2]): (row[3], row[4]) for row in tables["ff_stream_summary"]},
    )


def _grouped(rows: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    grouped: dict[K, list[T]] = {}
    for row in rows:
        grouped.setdefault(key(row), []).append(row)
    return grouped


def _owner(row: Attempt | Waitpoint | Signal) -> Key:
    return row.partition_key, row.execution_id


def _accounts(rows: Iterable[Row]) -> dict[tuple[UUID, str], int]:
    summed: dict[tuple[UUID, str], int] = {}
    for row in rows:
        summed[row[3], row[2]] = summed.get((row[3], row[2]), 0) + row[4]
    return summed


def _events(tables: Mapping[str, list[Row]], channel: str) -> dict[Key, list[Event]]:
    names, rows = TABLES[channel].names, sorted(tables[channel], key=lambda row: row[0])
    events = (dict(zip(names, row, strict=True)) for row in rows)
    return _grouped(events, lambda event: (event["partition_key"], event["execution_id"]))
