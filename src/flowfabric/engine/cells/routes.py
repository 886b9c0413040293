"""Where each operation goes: to a cell, to the base cell, or to all of them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

from flowfabric.engine.cells import locate


class To(Enum):
    """The cell of a namespace, which is registered first if the operation creates something; of an
    entity; the base cell; all cells, whose numbers are summed; or none, since the operation is a
    step of the loops of one cell.
    """

    NAMESPACE = "namespace"
    CREATES = "creates"
    ENTITY = "entity"
    HANDLE = "handle"
    LIMIT = "limit"
    BASE = "base"
    EVERYWHERE = "everywhere"
    SUM = "sum"
    MAXIMUM = "maximum"
    CONCAT = "concat"
    ONE_CELL = "one cell"


class Route(Struct, frozen=True):
    """`path` is that of an argument, or of a field of one; `kind` that of the entity."""

    to: To
    path: str = ""
    kind: str = ""


def _all(route: Route, names: str) -> Iterable[tuple[str, Route]]:
    return ((name, route) for name in names.split())


ROUTES: dict[str, Route] = dict(
    (
        *_all(
            Route(To.CREATES, "args.namespace"),
            "create_execution create_flow submit_flow create_budget create_quota_policy "
            "register_worker register_tasks",
        ),
        *_all(Route(To.CREATES, "namespace"), "begin_schedule erase_namespace"),
        *_all(Route(To.CREATES, "mark.namespace"), "move_schedule"),
        *_all(
            Route(To.NAMESPACE, "namespace"),
            "heartbeat_worker mark_worker_dead forget_task read_task list_tasks "
            "read_schedules pause_schedule resume_schedule release_for quotas_open_at",
        ),
        *_all(
            Route(To.ENTITY, "execution", locate.EXECUTION),
            "set_execution_tag set_execution_tags describe_execution read_execution_info "
            "read_execution_state read_execution_context get_execution_result "
            "resolve_execution_flow_id list_attempts read_execution_summary move_execution "
            "release_execution delete_execution restart_from_step explain_execution "
            "read_resume_signals close_waitpoint list_pending_waitpoints read_budget_ledger "
            "read_stream tail_stream read_summary wait_for_outcome read_followed read_steps "
            "read_last_suspension read_outcome expire_execution promote_delayed block_route "
            "unblock_execution read_current_attempt_index read_total_attempt_count "
            "get_execution_tag get_execution_namespace read_exec_core_fields "
            "issue_grant_and_claim mark_lease_expired_if_due requeue_lost cascade_completion "
            "evaluate_flow_eligibility promote_blocked_to_eligible suspend_by_triple "
            "resume_execution expire_suspension look_at_waitpoint release_admission",
        ),
        *_all(Route(To.ENTITY, "parent", locate.EXECUTION), "wake_parent"),
        *_all(
            Route(To.ENTITY, "token.grant.execution_id", locate.EXECUTION),
            "claim_from_resume_grant",
        ),
        *_all(
            Route(To.ENTITY, "args.execution_id", locate.EXECUTION),
            "cancel_execution change_priority revoke_lease replay_execution deliver_signal "
            "deliver_approval_signal claim_execution claim_resumed_execution issue_claim_grant "
            "renew_lease update_progress complete_execution fail_execution delay_execution "
            "issue_reclaim_grant reclaim_execution move_to_waiting_children record_spend "
            "check_admission block_execution_for_admission",
        ),
        *_all(
            Route(To.ENTITY, "flow_id", locate.FLOW),
            "describe_flow flow_members flow_edges read_flow_summary cancel_flow "
            "set_edge_group_policy get_flow_namespace list_edges describe_edge set_flow_tag "
            "get_flow_tag project_flow_summary ack_cancel_member drain_sibling_cancel_group "
            "reconcile_sibling_cancel_group",
        ),
        *_all(
            Route(To.ENTITY, "args.flow_id", locate.FLOW),
            "add_execution_to_flow stage_dependency_edge apply_dependency_to_child "
            "resolve_dependency cancel_flow_header",
        ),
        *_all(
            Route(To.HANDLE, "handle"),
            "renew progress complete fail delay cancel wait_children create_waitpoint suspend "
            "observe_signals read_held_waitpoint_token report_usage append_frame append_frames "
            "record_step",
        ),
        *_all(
            Route(To.ENTITY, "budget_id", locate.BUDGET),
            "reset_budget get_budget_status read_budget_usage_and_limits report_usage_admin "
            "release_budget",
        ),
        *_all(Route(To.ENTITY, "budget", locate.BUDGET), "release_waiters"),
        *_all(Route(To.ENTITY, "args.budget_id", locate.BUDGET), "update_budget"),
        *_all(
            Route(To.ENTITY, "quota_policy_id", locate.QUOTA),
            "read_quota_policy_limits close_quota open_quota",
        ),
        *_all(Route(To.ENTITY, "args.quota_policy_id", locate.QUOTA), "update_quota_policy"),
        *_all(Route(To.LIMIT, "limit_id"), "attach_limit detach_limit read_limit_namespace"),
        *_all(
            Route(To.BASE),
            "create_token rotate_token revoke_token list_tokens read_live_tokens touch_tokens "
            "list_waitpoint_hmac_kids events_held_back_by",
        ),
        *_all(
            Route(To.EVERYWHERE),
            "pause_lane resume_lane drain_lane set_lane_state seed_waitpoint_hmac_secret "
            "rotate_waitpoint_hmac_secret_all",
        ),
        *_all(
            Route(To.SUM),
            "forget_bulk_jobs dispatch_completions reconcile_cancel_backlog "
            "reconcile_sibling_cancels expire_waitpoints forget_signal_keys reset_due_budgets "
            "release_overlooked forget_usage_keys release_limited forget_live_frames "
            "drop_silent_workers forget_worker_events trim_retention forget_idempotency_keys "
            "drop_expired_grants",
        ),
        *_all(Route(To.MAXIMUM), "oldest_overdue_ms"),
        *_all(Route(To.CONCAT), "running_bulk_jobs"),
        *_all(
            Route(To.ONE_CELL),
            "release_page unsettled_flows cancel_orphans recheck_blocked dispatch_sibling_cancels "
            "reconcile_budget_counters reconcile_quota_counters lanes_due",
        ),
    )
)
"""Operations that are not here gather over several cells; they have a method of their own."""
