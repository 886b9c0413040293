"""The capability flags of engines."""

from __future__ import annotations

FLAGS = (
    "cancel_execution",
    "change_priority",
    "replay_execution",
    "revoke_lease",
    "read_execution_state",
    "read_execution_info",
    "get_execution_result",
    "budget_admin",
    "quota_admin",
    "rotate_waitpoint_hmac_secret_all",
    "seed_waitpoint_hmac_secret",
    "list_pending_waitpoints",
    "cancel_flow_header",
    "cancel_flow_wait_timeout",
    "cancel_flow_wait_indefinite",
    "ack_cancel_member",
    "claim_for_worker",
    "issue_reclaim_grant",
    "prepare",
    "subscribe_lease_history",
    "subscribe_completion",
    "subscribe_signal_delivery",
    "subscribe_instance_tags",
    "stream_durable_summary",
    "stream_best_effort_live",
    "register_worker",
    "heartbeat_worker",
    "mark_worker_dead",
    "list_expired_leases",
    "list_workers",
    "release_admission",
    "read_quota_policy_limits",
    "block_execution_for_admission",
    "read_budget_usage_and_limits",
)

NOT_OFFERED = frozenset({"subscribe_instance_tags"})
"""No store offers it."""


def package_version() -> dict[str, int]:
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        numbers = version("flowfabric").split(".")
    except PackageNotFoundError:
        numbers = []
    parts = [int(n) if n.isdigit() else 0 for n in [*numbers, "0", "0", "0"][:3]]
    return dict(zip(("major", "minor", "patch"), parts, strict=True))
