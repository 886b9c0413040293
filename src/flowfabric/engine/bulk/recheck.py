"""The conditions of a filter, checked again on the rows that are about to change."""

from __future__ import annotations

from flowfabric.engine.executions import search_filter
from flowfabric.model.bulk import BulkAction
from flowfabric.model.execution import Execution
from flowfabric.model.search import SUMMARY_COLUMNS, ExecutionFilter, ExecutionSummary
from flowfabric.model.state import PublicState

_HOLDS = ("paused_by_operator", "paused_by_policy")
_SAME = (
    ("task", "execution_kind"),
    ("lane", "lane_id"),
    ("namespace", "namespace"),
    ("key", "idempotency_key"),
)
RECHECKED = (
    "namespace",
    "lane_id",
    "execution_kind",
    "public_state",
    "created_at_ms",
    "terminal_at_ms",
    "current_worker_id",
    "current_worker_instance_id",
    "failure_reason",
    "last_failure_message",
    "idempotency_key",
    "tags",
)
"""The columns that a filter is checked on."""


def concerns(found: ExecutionSummary, action: BulkAction) -> bool:
    """Whether the action is about an execution in a state that it applies to.

    A release is not about executions that wait for nothing but a worker.
    """
    is_waiting = found.public_state == PublicState.WAITING
    return action is not BulkAction.RELEASE or not is_waiting or found.blocking_reason in _HOLDS


def still_matches(execution: Execution, where: ExecutionFilter) -> bool:
    """Whether it matches as it is now. Its flow and its parent never change."""
    wanted = ((getattr(where, field), getattr(execution, column)) for field, column in _SAME)
    holders = (execution.current_worker_instance_id, execution.current_worker_id)
    return (
        all(value is None or value == held for value, held in wanted)
        and (not where.state or execution.public_state in where.state)
        and (where.worker is None or where.worker in holders)
        and _is_in(execution.created_at_ms, where.created_from, where.created_before)
        and _is_in(execution.terminal_at_ms, where.ended_from, where.ended_before)
        and (not where.lanes or execution.lane_id in where.lanes)
        and (
            (where.tag is None and where.error is None)
            or search_filter.is_exact(_summary(execution), where)
        )
    )


def _is_in(at: int | None, low: int | None, high: int | None) -> bool:
    if low is None and high is None:
        return True
    return at is not None and (low is None or at >= low) and (high is None or at < high)


def _summary(execution: Execution) -> ExecutionSummary:
    return ExecutionSummary(*(getattr(execution, column) for column in SUMMARY_COLUMNS))
