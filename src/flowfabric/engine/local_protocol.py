"""What an engine on a store offers beyond `EngineProtocol`: maintenance, scheduling and reads that
HTTP does not carry.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NoReturn

from flowfabric.engine.claims.claims import Claims
from flowfabric.engine.claims.grants import Grants
from flowfabric.engine.claims.routing import Routing
from flowfabric.engine.executions.explain import Explain
from flowfabric.engine.executions.lanes import Lanes
from flowfabric.engine.executions.operator_actions import OperatorActions
from flowfabric.engine.executions.queries import Queries
from flowfabric.engine.executions.queue_stats import QueueCounts
from flowfabric.engine.flows.build import FlowBuilds
from flowfabric.engine.flows.cancels import FlowCancels
from flowfabric.engine.flows.dependencies import Dependencies
from flowfabric.engine.flows.flow_queries import FlowQueries
from flowfabric.engine.flows.sibling_cancels import SiblingCancels
from flowfabric.engine.leases.named_calls import NamedCalls
from flowfabric.engine.leases.recovery import Recovery
from flowfabric.engine.limits.budget_maintenance import BudgetMaintenance
from flowfabric.engine.limits.budgets import Budgets
from flowfabric.engine.limits.quota_maintenance import QuotaMaintenance
from flowfabric.engine.limits.quotas import Quotas
from flowfabric.engine.operation import operation
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.engine.streams.streams import Streams
from flowfabric.engine.waits.signals import Signals
from flowfabric.engine.waits.signing_keys import SigningKeys
from flowfabric.engine.waits.suspend import Suspend
from flowfabric.engine.waits.waitpoint_queries import WaitpointQueries
from flowfabric.engine.workers.registry import WorkerRegistry
from flowfabric.engine.workers.retention import Retention
from flowfabric.engine.workers.steps import Steps
from flowfabric.errors import Unavailable
from flowfabric.model.event import ScannerFilter
from flowfabric.model.lease import Capabilities
from flowfabric.store.port import Store


class LocalEngineProtocol(EngineProtocol):
    """The operations of an engine in this process."""

    store: Store

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """A flag is true exactly when the operation works here."""

    def subscribe_instance_tags(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> NoReturn:
        """No store offers it."""
        raise Unavailable("subscribe_instance_tags")

    expire_execution = operation(OperatorActions.expire_execution)
    promote_delayed = operation(OperatorActions.promote_delayed)
    block_route = operation(OperatorActions.block_route)
    unblock_execution = operation(OperatorActions.unblock_execution)

    set_lane_state = operation(Lanes.set_lane_state)

    read_current_attempt_index = operation(Queries.read_current_attempt_index)
    read_total_attempt_count = operation(Queries.read_total_attempt_count)
    get_execution_tag = operation(Queries.get_execution_tag)
    get_execution_namespace = operation(Queries.get_execution_namespace)
    get_execution_namespaces = operation(Queries.get_execution_namespaces)
    read_exec_core_fields = operation(Queries.read_exec_core_fields)

    events_held_back_by = operation(Explain.events_held_back_by)

    census = operation(QueueCounts.census)
    oldest_overdue_ms = operation(QueueCounts.oldest_overdue_ms)

    claim_execution = operation(Claims.claim_execution)
    claim_resumed_execution = operation(Claims.claim_resumed_execution)
    issue_grant_and_claim = operation(Claims.issue_grant_and_claim)
    claim_from_resume_grant = operation(Claims.claim_from_resume_grant)

    scan_eligible_executions = operation(Grants.scan_eligible_executions)
    issue_claim_grant = operation(Grants.issue_claim_grant)
    claim_for_worker = operation(Grants.claim_for_worker)

    live_workers = operation(Routing.live_workers)
    release_routed = operation(Routing.release_routed)
    release_page = operation(Routing.release_page)
    release_for = operation(Routing.release_for)

    renew_lease = operation(NamedCalls.renew_lease)
    update_progress = operation(NamedCalls.update_progress)
    complete_execution = operation(NamedCalls.complete_execution)
    fail_execution = operation(NamedCalls.fail_execution)
    delay_execution = operation(NamedCalls.delay_execution)

    mark_lease_expired_if_due = operation(Recovery.mark_lease_expired_if_due)
    requeue_lost = operation(Recovery.requeue_lost)
    issue_reclaim_grant = operation(Recovery.issue_reclaim_grant)
    reclaim_execution = operation(Recovery.reclaim_execution)

    set_edge_group_policy = operation(FlowBuilds.set_edge_group_policy)
    get_flow_namespace = operation(FlowQueries.get_flow_namespace)
    list_edges = operation(FlowQueries.list_edges)
    describe_edge = operation(FlowQueries.describe_edge)
    set_flow_tag = operation(FlowBuilds.set_flow_tag)
    get_flow_tag = operation(FlowQueries.get_flow_tag)
    project_flow_summary = operation(FlowBuilds.project_flow_summary)
    unsettled_flows = operation(FlowQueries.unsettled_flows)

    resolve_dependency = operation(Dependencies.resolve_dependency)
    cascade_completion = operation(Dependencies.cascade_completion)
    move_to_waiting_children = operation(Dependencies.move_to_waiting_children)
    evaluate_flow_eligibility = operation(Dependencies.evaluate_flow_eligibility)
    promote_blocked_to_eligible = operation(Dependencies.promote_blocked_to_eligible)
    dispatch_completions = operation(Dependencies.dispatch_completions)
    cancel_orphans = operation(Dependencies.cancel_orphans)
    recheck_blocked = operation(Dependencies.recheck_blocked)

    cancel_flow_header = operation(FlowCancels.cancel_flow_header)
    ack_cancel_member = operation(FlowCancels.ack_cancel_member)
    reconcile_cancel_backlog = operation(FlowCancels.reconcile_cancel_backlog)
    dispatch_sibling_cancels = operation(SiblingCancels.dispatch_sibling_cancels)
    drain_sibling_cancel_group = operation(SiblingCancels.drain_sibling_cancel_group)
    reconcile_sibling_cancel_group = operation(SiblingCancels.reconcile_sibling_cancel_group)
    reconcile_sibling_cancels = operation(SiblingCancels.reconcile_sibling_cancels)

    suspend_by_triple = operation(Suspend.suspend_by_triple)

    deliver_approval_signal = operation(Signals.deliver_approval_signal)
    wake_parent = operation(Signals.wake_parent)
    resume_execution = operation(Signals.resume_execution)
    expire_suspension = operation(Signals.expire_suspension)
    expire_waitpoints = operation(Signals.expire_waitpoints)
    forget_signal_keys = operation(Signals.forget_signal_keys)

    look_at_waitpoint = operation(WaitpointQueries.look_at_waitpoint)

    seed_waitpoint_hmac_secret = operation(SigningKeys.seed_waitpoint_hmac_secret)

    report_usage_admin = operation(Budgets.report_usage_admin)
    record_spend = operation(Budgets.record_spend)
    release_budget = operation(BudgetMaintenance.release_budget)
    reset_due_budgets = operation(BudgetMaintenance.reset_due_budgets)
    release_waiters = operation(BudgetMaintenance.release_waiters)
    release_overlooked = operation(BudgetMaintenance.release_overlooked)
    forget_usage_keys = operation(BudgetMaintenance.forget_usage_keys)
    reconcile_budget_counters = operation(BudgetMaintenance.reconcile_budget_counters)

    check_admission = operation(Quotas.check_admission)
    release_admission = operation(Quotas.release_admission)
    block_execution_for_admission = operation(Quotas.block_execution_for_admission)
    read_limit_namespace = operation(Quotas.read_limit_namespace)

    reconcile_quota_counters = operation(QuotaMaintenance.reconcile_quota_counters)
    release_limited = operation(QuotaMaintenance.release_limited)

    forget_live_frames = operation(Streams.forget_live_frames)

    drop_silent_workers = operation(WorkerRegistry.drop_silent_workers)
    forget_worker_events = operation(WorkerRegistry.forget_worker_events)

    quotas_open_at = operation(Steps.quotas_open_at)

    trim_retention = operation(Retention.trim_retention)
    forget_idempotency_keys = operation(Retention.forget_idempotency_keys)
    drop_expired_grants = operation(Retention.drop_expired_grants)
