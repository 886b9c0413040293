"""A whole database of the original as rows of this schema."""

from __future__ import annotations

from flowfabric.rules.imports.events import import_events
from flowfabric.rules.imports.executions import import_executions
from flowfabric.rules.imports.flows import import_flows
from flowfabric.rules.imports.limits import import_limits
from flowfabric.rules.imports.original import Imported, Original
from flowfabric.rules.imports.streams import import_streams
from flowfabric.rules.imports.waits import import_waits

BOOKKEEPING = frozenset(
    {"_sqlx_migrations", "ff_migration_annotation", "ff_partition_config", "sqlite_sequence"}
)
"""Tables about the file itself."""
_GONE = {
    "ff_claim_grant": "its worker was one of the original: a claim asks again",
    "ff_worker_registry": "workers register when they start",
}
READ = frozenset(
    {
        "ff_exec_core",
        "ff_attempt",
        "ff_execution_capabilities",
        "ff_lane_registry",
        "ff_completion_event",
        "ff_lease_event",
        "ff_operator_event",
        "ff_signal_event",
        "ff_worker_registry_event",
        "ff_flow_core",
        "ff_edge",
        "ff_edge_group",
        "ff_pending_cancel_groups",
        "ff_cancel_backlog",
        "ff_cancel_backlog_member",
        "ff_cancel_dispatch_outbox",
        "ff_budget_policy",
        "ff_budget_usage",
        "ff_budget_usage_by_exec",
        "ff_budget_usage_dedup",
        "ff_quota_policy",
        "ff_quota_window",
        "ff_quota_admitted",
        "ff_suspension_current",
        "ff_waitpoint_pending",
        "ff_waitpoint_hmac",
        "ff_suspend_dedup",
        "ff_stream_frame",
        "ff_stream_meta",
        "ff_stream_summary",
    }
)


def import_rows(original: Original) -> Imported:
    """The same rows and notes each time, so that an interrupted import can continue."""
    made = Imported.new()
    import_executions(original, made)
    import_flows(original, made)
    import_limits(original, made)
    import_events(original, made)
    import_waits(original, made)
    import_streams(original, made)
    for table, fact in _GONE.items():
        for row in original.rows(table):
            made.left_out(table, row.get("worker_instance_id"), fact)
    for table in sorted(original.tables.keys() - READ - BOOKKEEPING - _GONE.keys()):
        rows = len(original.rows(table))
        made.left_out(table, f"{rows} rows", "a table that this release does not know")
    return made
