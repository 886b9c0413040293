"""Tables, declared once. The SQL stores render them, the in-memory store interprets them.

A column reads `name kind`: `!` marks a key column, `?` a nullable one, `=x` gives the default.
Kinds: int, real, text, uuid, uuidtext (a uuid that SQLite keeps as text), bytes, json, list (of
text), auto (the number of an event, which the database draws).
"""

from __future__ import annotations

from flowfabric.plan import Form, Insert
from flowfabric.store.indexes import INDEXES
from flowfabric.store.table import Child, Column, Index, Table, table

__all__ = ["INDEXES", "OUTBOXES", "TABLES", "Child", "Column", "Index", "Table", "channels_of"]

_EVENT = "partition_key int=0, namespace text?, instance_tag text?"

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        table(
            "ff_exec_core",
            """partition_key int!, execution_id uuid!, flow_id uuid?, lane_id text,
            namespace text='default', instance_tag text?, execution_kind text='',
            creator_identity text='', idempotency_key text?, payload_encoding text?,
            required_capabilities list='[]', budget_ids list='[]', quota_policy_id uuid?,
            gate text='', blocked_on text?, lifecycle_phase text, ownership_state text='unowned',
            eligibility_state text, blocking_reason text='none', blocking_detail text='',
            terminal_outcome text='none', attempt_state text, public_state text, priority int=0,
            created_at_ms int, started_at_ms int?, terminal_at_ms int?, last_transition_at int=0,
            last_mutation_at int=0, delay_until_ms int?, deadline_at_ms int?,
            deadline_origin text?, attempt_index int=0, total_attempt_count int=0,
            retry_count int=0, replay_count int=0, lease_reclaim_count int=0,
            max_reclaim_count int?, attempt_timeout_ms int?, attempt_timeout_at_ms int?,
            attempt_timeout_remaining_ms int?, retention_ttl_ms int?,
            failed_retention_ttl_ms int?, retain_until_ms int?, current_attempt_id uuid?,
            current_lease_id uuid?, lease_epoch int=0, version int=0, current_worker_id text?,
            current_worker_instance_id text?, lease_acquired_at int?, lease_expires_at_ms int?,
            lease_last_renewed_at int?, lease_renewal_deadline int?, lease_expired_at int?,
            expired_epoch int?, interrupt_cause text?, closing_epoch int?,
            closing_attempt_index int?, pending_retry_reason text?, pending_replay_reason text?,
            pending_replay_requested_by text?, pending_previous_attempt_index int?,
            pending_attempt_policy json?, reserved_for text?, reserved_until_ms int?,
            failure_reason text?, last_failure_message text?, cancellation_reason text?,
            cancelled_by text?, progress_pct int?, progress_message text?,
            progress_updated_at int?, last_capability_mismatch_at int?,
            current_suspension_id uuid?, current_waitpoint_id uuid?,
            last_hmac_validation_failed_at int?, result_encoding text?, tags json='{}',
            raw_fields json='{}', policy json?, payload bytes?, result bytes?""",
            (
                "ff_attempt",
                "ff_claim_grant",
                "ff_suspension_current",
                "ff_waitpoint_pending",
                "ff_signal",
                "ff_signal_dedup",
                "ff_suspend_dedup",
                "ff_budget_usage_by_exec",
                "ff_stream_meta",
                "ff_stream_frame",
                "ff_stream_summary",
                "ff_step",
                "ff_lease_event",
                "ff_completion_event",
                "ff_operator_event",
                "ff_signal_event",
            ),
        ),
        table(
            "ff_attempt",
            """partition_key int!, execution_id uuid!, attempt_index int!, attempt_id uuid?,
            attempt_type text='initial', attempt_state text='created', worker_id text?,
            worker_instance_id text?, lease_id uuid?, lease_epoch int=0,
            lease_expires_at_ms int?, created_at_ms int=0, started_at_ms int?,
            resumed_at_ms int?, suspended_at_ms int?, suspension_id text?, terminal_at_ms int?,
            outcome text?, failure_reason text?, failure_category text?, retry_reason text?,
            replay_reason text?, replay_requested_by text?, reclaim_reason text?,
            previous_attempt_index int?, replayed_from_attempt_index int?,
            attempt_timeout_at_ms int?, attempt_timeout_remaining_ms int?,
            usage json='{"last_usage_report_seq":0}', policy json?, raw_fields json='{}'""",
        ),
        table(
            "ff_stream_meta",
            """partition_key int!, execution_id uuid!, attempt_index int!, created_at_ms int,
            frame_count int=0, total_bytes int=0, last_ts_ms int=0, last_seq int=0,
            has_durable_frame int=0, durable_count int=0, durable_trimmed int=0,
            summary_count int=0, summary_trimmed int=0, live_count int=0, live_trimmed int=0,
            ema_rate_hz real?, last_append_ts_ms int?, maxlen_applied_last int?, version int=0""",
        ),
        table(
            "ff_stream_frame",
            """partition_key int!, execution_id uuid!, attempt_index int!, ts_ms int!, seq int!,
            mode text='durable', number int, mode_number int, client_seq int?,
            expires_at_ms int?, created_at_ms int, fields json='{}'""",
        ),
        table(
            "ff_stream_summary",
            """partition_key int!, execution_id uuid!, attempt_index int!, document_json json='{}',
            version int=1, patch_kind text='json-merge-patch', last_updated_ms int,
            first_applied_ms int""",
        ),
        table(
            "ff_step",
            """partition_key int!, execution_id uuid!, position int!, name text, kind text='step',
            attempt_index int=0, recorded_at_ms int, value bytes?""",
        ),
        table(
            "ff_claim_grant",
            """partition_key int!, execution_id uuid!, grant_id text, kind text, worker_id text,
            worker_instance_id text, lane_id text, capability_hash text?,
            worker_capabilities list='[]', route_snapshot_json json?, admission_summary text?,
            grant_ttl_ms int, issued_at_ms int, expires_at_ms int""",
        ),
        table(
            "ff_lane_registry",
            """lane_id text!, registered_at_ms int, registered_by text, state text='active',
            updated_at_ms int=0""",
        ),
        table(
            "ff_idempotency",
            """namespace text!, idempotency_key text!, partition_key int, execution_id uuid,
            expires_at_ms int?, digest text?""",
        ),
        table(
            "ff_worker_registry",
            """namespace text!, worker_instance_id text!, worker_id text, lanes list='[]',
            capabilities list='[]', last_heartbeat_ms int, liveness_ttl_ms int,
            expires_at_ms int, registered_at_ms int, version int=0""",
        ),
        table(
            "ff_worker_registry_event",
            """event_id auto!, namespace text, worker_instance_id text, event_kind text,
            event_at_ms int, reason text?""",
        ),
        table(
            "ff_flow_core",
            """partition_key int!, flow_id uuid!, graph_revision int=0,
            public_flow_state text='open', created_at_ms int, terminal_at_ms int?, version int=0,
            settled_at_ms int?, parent_partition int?, parent_execution_id uuid?,
            raw_fields json='{}'""",
            (
                "ff_edge",
                "ff_edge_group",
                "ff_pending_cancel_groups",
                "ff_cancel_backlog",
                "ff_cancel_backlog_member",
                "ff_flow_summary",
                Child("ff_operator_event", (("flow_id", "execution_id"),)),
            ),
        ),
        table(
            "ff_edge",
            """partition_key int!, flow_id uuid!, edge_id uuid!, upstream_eid uuid,
            downstream_eid uuid, edge_state text='pending', dep_state text?, applied_at_ms int?,
            last_resolved_at_ms int?, reset_at_ms int?, policy json='{}', policy_version int=0""",
        ),
        table(
            "ff_edge_group",
            """partition_key int!, flow_id uuid!, downstream_eid uuid!, policy json='{}',
            k_target int=0, success_count int=0, fail_count int=0, skip_count int=0,
            running_count int=0, group_state text='pending', satisfied_at_ms int?,
            cancel_siblings_pending_flag int=0, cancel_siblings_pending_members json='[]',
            cancel_siblings_reason text?, version int=0""",
        ),
        table(
            "ff_pending_cancel_groups",
            "partition_key int!, flow_id uuid!, downstream_eid uuid!, enqueued_at_ms int",
        ),
        table(
            "ff_cancel_backlog",
            """partition_key int!, flow_id uuid!, requested_at_ms int, requester text='',
            reason text='', grace_until_ms int?, cancellation_policy text, status text='pending'""",
        ),
        table("ff_cancel_backlog_member", "partition_key int!, flow_id uuid!, execution_id text!"),
        table(
            "ff_flow_summary",
            """partition_key int!, flow_id uuid!, total_members int=0, sampled_members int=0,
            members_completed int=0, members_failed int=0, members_cancelled int=0,
            members_expired int=0, members_skipped int=0, members_active int=0,
            members_suspended int=0, members_waiting int=0, members_delayed int=0,
            members_rate_limited int=0, members_waiting_children int=0, public_flow_state text,
            last_summary_update_at int""",
        ),
        table(
            "ff_lease_event",
            f"""event_id auto!, execution_id uuidtext, lease_id uuidtext?, lease_epoch int?,
            worker_instance_id text?, event_type text, reason text?, occurred_at_ms int,
            {_EVENT}""",
            outbox=True,
            urgent=False,
        ),
        table(
            "ff_completion_event",
            f"""event_id auto!, execution_id uuid, flow_id uuid?, outcome text, occurred_at_ms int,
            committed_at_ms int=0, dispatched_at_ms int?, {_EVENT}""",
            outbox=True,
        ),
        table(
            "ff_operator_event",
            f"""event_id auto!, execution_id uuidtext, event_type text, details json?,
            occurred_at_ms int, {_EVENT}""",
            outbox=True,
        ),
        table(
            "ff_suspension_current",
            """partition_key int!, execution_id uuid!, suspension_id uuid, suspended_at_ms int,
            timeout_at_ms int?, reason_code text, condition json, satisfied_set json='[]',
            timeout_behavior text?, attempt_index int=0, requested_by text='worker',
            resume_policy json='{}', continuation_metadata_pointer text?,
            primary_waitpoint_id uuid?, last_signal_at_ms int?, closer_signal_id uuid?,
            satisfier_signal_ids json='[]', closed_at_ms int?, close_reason text?, version int=0""",
        ),
        table(
            "ff_waitpoint_pending",
            """partition_key int!, waitpoint_id uuid!, execution_id uuid, token_kid text,
            token_digest text, created_at_ms int, expires_at_ms int?, waitpoint_key text='',
            state text='pending', required_signal_names json='[]', activated_at_ms int?,
            attempt_index int=0, suspension_id uuid?, signal_count int=0,
            matched_signal_count int=0, last_signal_at_ms int?, satisfied_at_ms int?,
            closed_at_ms int?, close_reason text?, version int=0, signals_trimmed int=0,
            payload_schema text?, approvers json='[]'""",
        ),
        table(
            "ff_signal",
            """partition_key int!, execution_id uuid!, signal_id uuid!, waitpoint_id uuid,
            waitpoint_key text='', suspension_id uuid?, attempt_index int=0, signal_name text='',
            signal_category text='', source_type text='', source_identity text='',
            correlation_id text='', payload_encoding text?, target_scope text='',
            idempotency_key text?, created_at_ms int, accepted_at_ms int, observed_effect text,
            matched int=0, payload bytes?, comment text='', link text=''""",
        ),
        table(
            "ff_signal_dedup",
            """partition_key int!, waitpoint_id uuid!, idempotency_key text!, execution_id uuid,
            signal_id uuid, expires_at_ms int""",
        ),
        table(
            "ff_suspend_dedup",
            """partition_key int!, idempotency_key text!, execution_id uuid, outcome_json text,
            created_at_ms int, expires_at_ms int""",
        ),
        table(
            "ff_waitpoint_hmac",
            "kid text!, rotated_at_ms int, active int=0, expires_at_ms int?, secret bytes",
        ),
        table(
            "ff_signal_event",
            f"""event_id auto!, execution_id uuidtext, signal_id uuidtext, waitpoint_id uuidtext,
            source_identity text?, event_type text, occurred_at_ms int, {_EVENT}""",
            outbox=True,
        ),
        table("ff_outbox_trim", "channel text!, event_id int"),
        table(
            "ff_budget_policy",
            """budget_id uuid!, partition_key int=0, namespace text='default', policy_json json,
            scope_type text='', scope_id text='', enforcement_mode text='', breach_count int=0,
            soft_breach_count int=0, last_breach_at_ms int?, last_breach_dim text?,
            next_reset_at_ms int?, changed_at_ms int?, created_at_ms int, updated_at_ms int,
            version int=0""",
            (
                "ff_budget_usage",
                "ff_budget_usage_dedup",
                Child("ff_operator_event", (("budget_id", "execution_id"),)),
            ),
        ),
        table(
            "ff_budget_usage",
            """budget_id uuid!, dimensions_key text!, partition_key int=0, current_value int=0,
            last_reset_at_ms int?, updated_at_ms int=0""",
        ),
        table(
            "ff_budget_usage_dedup",
            """budget_id uuid!, dedup_key text!, partition_key int=0, outcome_json json='{}',
            applied_at_ms int, expires_at_ms int""",
        ),
        table(
            "ff_budget_usage_by_exec",
            """partition_key int!, execution_id uuid!, dimensions_key text!, budget_id uuid!,
            delta_total int=0, updated_at_ms int=0""",
        ),
        table(
            "ff_quota_policy",
            """quota_policy_id uuid!, partition_key int=0, namespace text='default',
            requests_per_window_seconds int, max_requests_per_window int,
            active_concurrency_cap int, active_concurrency int=0, jitter_ms int=0,
            closed_until_ms int?, changed_at_ms int?, created_at_ms int, updated_at_ms int,
            version int=0""",
            (
                "ff_quota_window",
                "ff_quota_admitted",
                Child("ff_operator_event", (("quota_policy_id", "execution_id"),)),
            ),
        ),
        table(
            "ff_quota_window",
            "quota_policy_id uuid!, dimension text!, admitted_at_ms int!, execution_id uuidtext!",
        ),
        table(
            "ff_quota_admitted",
            "quota_policy_id uuid!, execution_id text!, admitted_at_ms int, expires_at_ms int?",
        ),
        table(
            "ff_limit_scope",
            """scope_type text!, scope_id text!, kind text!, limit_id uuid!, attached_at_ms int,
            namespace text='default'""",
        ),
        table("ff_lane_gate", "lane_id text!, namespace text!, gate text!, quota_policy_id uuid?"),
        table("ff_schedule", "namespace text!, name text!, cursor_ms int, paused int=0"),
        table(
            "ff_bulk_job",
            """job_id uuid!, namespace text?, action text, args json, state text='running',
            cursor text?, matched int=0, changed int=0, skipped int=0, refused int=0,
            errors json='[]', follow_ups json='[]', created_at_ms int, updated_at_ms int,
            ended_at_ms int?, version int=0""",
            (Child("ff_operator_event", (("job_id", "execution_id"),)),),
        ),
    )
}


def channels_of(form: Form) -> tuple[str, ...]:
    """The outboxes that a form inserts events into."""
    return tuple(
        dict.fromkeys(
            s.table for s in form.steps if isinstance(s, Insert) and TABLES[s.table].outbox
        )
    )


OUTBOXES = tuple(t.name for t in TABLES.values() if t.outbox)
