"""What an engine on a store offers beyond `EngineProtocol`: maintenance, scheduling and reads that
HTTP does not carry.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NoReturn

from flowfabric.engine import parts
from flowfabric.engine.operation import operation
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import Unavailable
from flowfabric.model.event import ScannerFilter
from flowfabric.model.lease import Capabilities
from flowfabric.store.port import Store


class LocalEngineProtocol(EngineProtocol):
    """The operations of an engine in this process."""

    store: Store

    def in_namespace(self, namespace: str) -> LocalEngineProtocol:
        return self

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """A flag is true exactly when the operation works here."""

    def subscribe_instance_tags(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> NoReturn:
        """No store offers it."""
        raise Unavailable("subscribe_instance_tags")

    expire_execution = operation(parts.OperatorActions.expire_execution)
    promote_delayed = operation(parts.OperatorActions.promote_delayed)
    block_route = operation(parts.OperatorActions.block_route)
    unblock_execution = operation(parts.OperatorActions.unblock_execution)

    set_lane_state = operation(parts.Lanes.set_lane_state)

    read_current_attempt_index = operation(parts.Queries.read_current_attempt_index)
    read_total_attempt_count = operation(parts.Queries.read_total_attempt_count)
    get_execution_tag = operation(parts.Queries.get_execution_tag)
    get_execution_namespace = operation(parts.Queries.get_execution_namespace)
    get_execution_namespaces = operation(parts.Queries.get_execution_namespaces)
    read_exec_core_fields = operation(parts.Queries.read_exec_core_fields)

    run_bulk = operation(parts.BulkActions.run_bulk)
    running_bulk_jobs = operation(parts.BulkActions.running_bulk_jobs)
    forget_bulk_jobs = operation(parts.BulkActions.forget_bulk_jobs)

    events_held_back_by = operation(parts.Explain.events_held_back_by)

    census = operation(parts.QueueCounts.census)
    oldest_overdue_ms = operation(parts.QueueCounts.oldest_overdue_ms)

    claim_execution = operation(parts.Claims.claim_execution)
    claim_resumed_execution = operation(parts.Claims.claim_resumed_execution)
    issue_grant_and_claim = operation(parts.Claims.issue_grant_and_claim)
    claim_from_resume_grant = operation(parts.Claims.claim_from_resume_grant)

    scan_eligible_executions = operation(parts.Grants.scan_eligible_executions)
    issue_claim_grant = operation(parts.Grants.issue_claim_grant)
    claim_for_worker = operation(parts.Grants.claim_for_worker)

    live_workers = operation(parts.Routing.live_workers)
    release_page = operation(parts.Routing.release_page)
    release_for = operation(parts.Routing.release_for)

    renew_lease = operation(parts.NamedCalls.renew_lease)
    update_progress = operation(parts.NamedCalls.update_progress)
    complete_execution = operation(parts.NamedCalls.complete_execution)
    fail_execution = operation(parts.NamedCalls.fail_execution)
    delay_execution = operation(parts.NamedCalls.delay_execution)

    mark_lease_expired_if_due = operation(parts.Recovery.mark_lease_expired_if_due)
    requeue_lost = operation(parts.Recovery.requeue_lost)
    issue_reclaim_grant = operation(parts.Recovery.issue_reclaim_grant)
    reclaim_execution = operation(parts.Recovery.reclaim_execution)

    set_edge_group_policy = operation(parts.FlowBuilds.set_edge_group_policy)
    get_flow_namespace = operation(parts.FlowQueries.get_flow_namespace)
    list_edges = operation(parts.FlowQueries.list_edges)
    describe_edge = operation(parts.FlowQueries.describe_edge)
    set_flow_tag = operation(parts.FlowBuilds.set_flow_tag)
    get_flow_tag = operation(parts.FlowQueries.get_flow_tag)
    project_flow_summary = operation(parts.FlowBuilds.project_flow_summary)
    unsettled_flows = operation(parts.FlowQueries.unsettled_flows)

    resolve_dependency = operation(parts.Dependencies.resolve_dependency)
    cascade_completion = operation(parts.Dependencies.cascade_completion)
    move_to_waiting_children = operation(parts.Dependencies.move_to_waiting_children)
    evaluate_flow_eligibility = operation(parts.Dependencies.evaluate_flow_eligibility)
    promote_blocked_to_eligible = operation(parts.Dependencies.promote_blocked_to_eligible)
    dispatch_completions = operation(parts.Dependencies.dispatch_completions)
    cancel_orphans = operation(parts.Dependencies.cancel_orphans)
    recheck_blocked = operation(parts.Dependencies.recheck_blocked)

    cancel_flow_header = operation(parts.FlowCancels.cancel_flow_header)
    ack_cancel_member = operation(parts.FlowCancels.ack_cancel_member)
    reconcile_cancel_backlog = operation(parts.FlowCancels.reconcile_cancel_backlog)
    dispatch_sibling_cancels = operation(parts.SiblingCancels.dispatch_sibling_cancels)
    drain_sibling_cancel_group = operation(parts.SiblingCancels.drain_sibling_cancel_group)
    reconcile_sibling_cancel_group = operation(parts.SiblingCancels.reconcile_sibling_cancel_group)
    reconcile_sibling_cancels = operation(parts.SiblingCancels.reconcile_sibling_cancels)

    suspend_by_triple = operation(parts.Suspend.suspend_by_triple)

    wake_parent = operation(parts.Signals.wake_parent)
    resume_execution = operation(parts.Signals.resume_execution)
    expire_suspension = operation(parts.Signals.expire_suspension)
    expire_waitpoints = operation(parts.Signals.expire_waitpoints)
    forget_signal_keys = operation(parts.Signals.forget_signal_keys)

    look_at_waitpoint = operation(parts.WaitpointQueries.look_at_waitpoint)

    seed_waitpoint_hmac_secret = operation(parts.SigningKeys.seed_waitpoint_hmac_secret)

    read_live_tokens = operation(parts.ApiTokens.read_live_tokens)
    touch_tokens = operation(parts.ApiTokens.touch_tokens)

    report_usage_admin = operation(parts.Budgets.report_usage_admin)
    record_spend = operation(parts.Budgets.record_spend)
    release_budget = operation(parts.BudgetMaintenance.release_budget)
    reset_due_budgets = operation(parts.BudgetMaintenance.reset_due_budgets)
    release_waiters = operation(parts.BudgetMaintenance.release_waiters)
    release_overlooked = operation(parts.BudgetMaintenance.release_overlooked)
    forget_usage_keys = operation(parts.BudgetMaintenance.forget_usage_keys)
    reconcile_budget_counters = operation(parts.BudgetMaintenance.reconcile_budget_counters)

    check_admission = operation(parts.Quotas.check_admission)
    release_admission = operation(parts.Quotas.release_admission)
    block_execution_for_admission = operation(parts.Quotas.block_execution_for_admission)
    read_limit_namespace = operation(parts.Quotas.read_limit_namespace)

    reconcile_quota_counters = operation(parts.QuotaMaintenance.reconcile_quota_counters)
    release_limited = operation(parts.QuotaMaintenance.release_limited)

    forget_live_frames = operation(parts.Streams.forget_live_frames)

    drop_silent_workers = operation(parts.WorkerRegistry.drop_silent_workers)
    forget_worker_events = operation(parts.WorkerRegistry.forget_worker_events)

    quotas_open_at = operation(parts.Steps.quotas_open_at)

    trim_retention = operation(parts.Retention.trim_retention)
    lanes_due = operation(parts.Retention.lanes_due)
    forget_idempotency_keys = operation(parts.Retention.forget_idempotency_keys)
    drop_expired_grants = operation(parts.Retention.drop_expired_grants)
