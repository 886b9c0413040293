T.ff_exec_core = {
  code = 't00', indexes = {},
  codes = { partition_key = '00', execution_id = '01', flow_id = '02', lane_id = '03', namespace = '04', instance_tag = '05', execution_kind = '06', creator_identity = '07', idempotency_key = '08', payload_encoding = '09', required_capabilities = '0a', budget_ids = '0b', quota_policy_id = '0c', gate = '0d', blocked_on = '0e', lifecycle_phase = '0f', ownership_state = '0g', eligibility_state = '0h', blocking_reason = '0i', blocking_detail = '0j', terminal_outcome = '0k', attempt_state = '0l', public_state = '0m', priority = '0n', created_at_ms = '0o', started_at_ms = '0p', terminal_at_ms = '0q', last_transition_at = '0r', last_mutation_at = '0s', delay_until_ms = '0t', deadline_at_ms = '0u', deadline_origin = '0v', attempt_index = '0w', total_attempt_count = '0x', retry_count = '0y', replay_count = '0z', lease_reclaim_count = '0A', max_reclaim_count = '0B', attempt_timeout_ms = '0C', attempt_timeout_at_ms = '0D', attempt_timeout_remaining_ms = '0E', retention_ttl_ms = '0F', failed_retention_ttl_ms = '0G', retain_until_ms = '0H', current_attempt_id = '0I', current_lease_id = '0J', lease_epoch = '0K', version = '0L', current_worker_id = '0M', current_worker_instance_id = '0N', lease_acquired_at = '0O', lease_expires_at_ms = '0P', lease_last_renewed_at = '0Q', lease_renewal_deadline = '0R', lease_expired_at = '0S', expired_epoch = '0T', interrupt_cause = '0U', closing_epoch = '0V', closing_attempt_index = '0W', pending_retry_reason = '0X', pending_replay_reason = '0Y', pending_replay_requested_by = '0Z', pending_previous_attempt_index = '10', pending_attempt_policy = '11', reserved_for = '12', reserved_until_ms = '13', failure_reason = '14', last_failure_message = '15', cancellation_reason = '16', cancelled_by = '17', progress_pct = '18', progress_message = '19', progress_updated_at = '1a', last_capability_mismatch_at = '1b', current_suspension_id = '1c', current_waitpoint_id = '1d', last_hmac_validation_failed_at = '1e', result_encoding = '1f', tags = '1g', raw_fields = '1h', policy = '1i', payload = '1j', result = '1k' },
  names = { ['00'] = 'partition_key', ['01'] = 'execution_id', ['02'] = 'flow_id', ['03'] = 'lane_id', ['04'] = 'namespace', ['05'] = 'instance_tag', ['06'] = 'execution_kind', ['07'] = 'creator_identity', ['08'] = 'idempotency_key', ['09'] = 'payload_encoding', ['0a'] = 'required_capabilities', ['0b'] = 'budget_ids', ['0c'] = 'quota_policy_id', ['0d'] = 'gate', ['0e'] = 'blocked_on', ['0f'] = 'lifecycle_phase', ['0g'] = 'ownership_state', ['0h'] = 'eligibility_state', ['0i'] = 'blocking_reason', ['0j'] = 'blocking_detail', ['0k'] = 'terminal_outcome', ['0l'] = 'attempt_state', ['0m'] = 'public_state', ['0n'] = 'priority', ['0o'] = 'created_at_ms', ['0p'] = 'started_at_ms', ['0q'] = 'terminal_at_ms', ['0r'] = 'last_transition_at', ['0s'] = 'last_mutation_at', ['0t'] = 'delay_until_ms', ['0u'] = 'deadline_at_ms', ['0v'] = 'deadline_origin', ['0w'] = 'attempt_index', ['0x'] = 'total_attempt_count', ['0y'] = 'retry_count', ['0z'] = 'replay_count', ['0A'] = 'lease_reclaim_count', ['0B'] = 'max_reclaim_count', ['0C'] = 'attempt_timeout_ms', ['0D'] = 'attempt_timeout_at_ms', ['0E'] = 'attempt_timeout_remaining_ms', ['0F'] = 'retention_ttl_ms', ['0G'] = 'failed_retention_ttl_ms', ['0H'] = 'retain_until_ms', ['0I'] = 'current_attempt_id', ['0J'] = 'current_lease_id', ['0K'] = 'lease_epoch', ['0L'] = 'version', ['0M'] = 'current_worker_id', ['0N'] = 'current_worker_instance_id', ['0O'] = 'lease_acquired_at', ['0P'] = 'lease_expires_at_ms', ['0Q'] = 'lease_last_renewed_at', ['0R'] = 'lease_renewal_deadline', ['0S'] = 'lease_expired_at', ['0T'] = 'expired_epoch', ['0U'] = 'interrupt_cause', ['0V'] = 'closing_epoch', ['0W'] = 'closing_attempt_index', ['0X'] = 'pending_retry_reason', ['0Y'] = 'pending_replay_reason', ['0Z'] = 'pending_replay_requested_by', ['10'] = 'pending_previous_attempt_index', ['11'] = 'pending_attempt_policy', ['12'] = 'reserved_for', ['13'] = 'reserved_until_ms', ['14'] = 'failure_reason', ['15'] = 'last_failure_message', ['16'] = 'cancellation_reason', ['17'] = 'cancelled_by', ['18'] = 'progress_pct', ['19'] = 'progress_message', ['1a'] = 'progress_updated_at', ['1b'] = 'last_capability_mismatch_at', ['1c'] = 'current_suspension_id', ['1d'] = 'current_waitpoint_id', ['1e'] = 'last_hmac_validation_failed_at', ['1f'] = 'result_encoding', ['1g'] = 'tags', ['1h'] = 'raw_fields', ['1i'] = 'policy', ['1j'] = 'payload', ['1k'] = 'result' },
  default_values = { namespace = 'default', execution_kind = '', creator_identity = '', required_capabilities = '[]', budget_ids = '[]', gate = '', ownership_state = 'unowned', blocking_reason = 'none', blocking_detail = '', terminal_outcome = 'none', priority = '0', last_transition_at = '0', last_mutation_at = '0', attempt_index = '0', total_attempt_count = '0', retry_count = '0', replay_count = '0', lease_reclaim_count = '0', lease_epoch = '0', version = '0', tags = '{}', raw_fields = '{}' },
  kept = { partition_key = true, execution_id = true },
  large = { payload = true, result = true },
}
T.ff_exec_core.defaults = { __index = T.ff_exec_core.default_values }
T.ff_attempt = {
  code = 't01', indexes = {},
  codes = { partition_key = '00', execution_id = '01', attempt_index = '02', attempt_id = '03', attempt_type = '04', attempt_state = '05', worker_id = '06', worker_instance_id = '07', lease_id = '08', lease_epoch = '09', lease_expires_at_ms = '0a', created_at_ms = '0b', started_at_ms = '0c', resumed_at_ms = '0d', suspended_at_ms = '0e', suspension_id = '0f', terminal_at_ms = '0g', outcome = '0h', failure_reason = '0i', failure_category = '0j', retry_reason = '0k', replay_reason = '0l', replay_requested_by = '0m', reclaim_reason = '0n', previous_attempt_index = '0o', replayed_from_attempt_index = '0p', attempt_timeout_at_ms = '0q', attempt_timeout_remaining_ms = '0r', usage = '0s', policy = '0t', raw_fields = '0u' },
  names = { ['00'] = 'partition_key', ['01'] = 'execution_id', ['02'] = 'attempt_index', ['03'] = 'attempt_id', ['04'] = 'attempt_type', ['05'] = 'attempt_state', ['06'] = 'worker_id', ['07'] = 'worker_instance_id', ['08'] = 'lease_id', ['09'] = 'lease_epoch', ['0a'] = 'lease_expires_at_ms', ['0b'] = 'created_at_ms', ['0c'] = 'started_at_ms', ['0d'] = 'resumed_at_ms', ['0e'] = 'suspended_at_ms', ['0f'] = 'suspension_id', ['0g'] = 'terminal_at_ms', ['0h'] = 'outcome', ['0i'] = 'failure_reason', ['0j'] = 'failure_category', ['0k'] = 'retry_reason', ['0l'] = 'replay_reason', ['0m'] = 'replay_requested_by', ['0n'] = 'reclaim_reason', ['0o'] = 'previous_attempt_index', ['0p'] = 'replayed_from_attempt_index', ['0q'] = 'attempt_timeout_at_ms', ['0r'] = 'attempt_timeout_remaining_ms', ['0s'] = 'usage', ['0t'] = 'policy', ['0u'] = 'raw_fields' },
  default_values = { attempt_type = 'initial', attempt_state = 'created', lease_epoch = '0', created_at_ms = '0', usage = '{"last_usage_report_seq":0}', raw_fields = '{}' },
  kept = { partition_key = true, execution_id = true, attempt_index = true },
}
T.ff_attempt.defaults = { __index = T.ff_attempt.default_values }
T.ff_stream_meta = {
  code = 't02', indexes = {},
  codes = { partition_key = '00', execution_id = '01', attempt_index = '02', created_at_ms = '03', frame_count = '04', total_bytes = '05', last_ts_ms = '06', last_seq = '07', has_durable_frame = '08', durable_count = '09', durable_trimmed = '0a', summary_count = '0b', summary_trimmed = '0c', live_count = '0d', live_trimmed = '0e', ema_rate_hz = '0f', last_append_ts_ms = '0g', maxlen_applied_last = '0h', version = '0i' },
  names = { ['00'] = 'partition_key', ['01'] = 'execution_id', ['02'] = 'attempt_index', ['03'] = 'created_at_ms', ['04'] = 'frame_count', ['05'] = 'total_bytes', ['06'] = 'last_ts_ms', ['07'] = 'last_seq', ['08'] = 'has_durable_frame', ['09'] = 'durable_count', ['0a'] = 'durable_trimmed', ['0b'] = 'summary_count', ['0c'] = 'summary_trimmed', ['0d'] = 'live_count', ['0e'] = 'live_trimmed', ['0f'] = 'ema_rate_hz', ['0g'] = 'last_append_ts_ms', ['0h'] = 'maxlen_applied_last', ['0i'] = 'version' },
  default_values = { frame_count = '0', total_bytes = '0', last_ts_ms = '0', last_seq = '0', has_durable_frame = '0', durable_count = '0', durable_trimmed = '0', summary_count = '0', summary_trimmed = '0', live_count = '0', live_trimmed = '0', version = '0' },
  kept = { partition_key = true, execution_id = true, attempt_index = true },
}
T.ff_stream_meta.defaults = { __index = T.ff_stream_meta.default_values }
T.ff_stream_frame = {
  code = 't03', indexes = {},
  codes = { partition_key = '00', execution_id = '01', attempt_index = '02', ts_ms = '03', seq = '04', mode = '05', number = '06', mode_number = '07', client_seq = '08', expires_at_ms = '09', created_at_ms = '0a', fields = '0b' },
  names = { ['00'] = 'partition_key', ['01'] = 'execution_id', ['02'] = 'attempt_index', ['03'] = 'ts_ms', ['04'] = 'seq', ['05'] = 'mode', ['06'] = 'number', ['07'] = 'mode_number', ['08'] = 'client_seq', ['09'] = 'expires_at_ms', ['0a'] = 'created_at_ms', ['0b'] = 'fields' },
  default_values = { mode = 'durable', fields = '{}' },
  kept = { partition_key = true, execution_id = true, attempt_index = true, ts_ms = true, seq = true },
}
T.ff_stream_frame.defaults = { __index = T.ff_stream_frame.default_values }
T.ff_stream_summary = {
  code = 't04', indexes = {},
  codes = { partition_key = '00', execution_id = '01', attempt_index = '02', document_json = '03', version = '04', patch_kind = '05', last_updated_ms = '06', first_applied_ms = '07' },
  names = { ['00'] = 'partition_key', ['01'] = 'execution_id', ['02'] = 'attempt_index', ['03'] = 'document_json', ['04'] = 'version', ['05'] = 'patch_kind', ['06'] = 'last_updated_ms', ['07'] = 'first_applied_ms' },
  default_values = { document_json = '{}', version = '1', patch_kind = 'json-merge-patch' },
  kept = { partition_key = true, execution_id = true, attempt_index = true },
}
T.ff_stream_summary.defaults = { __index = T.ff_stream_summary.default_values }
T.ff_step = {
  code = 't05', indexes = {},
  codes = { partition_key = '00', execution_id = '01', position = '02', name = '03', kind = '04', attempt_index = '05', recorded_at_ms = '06', value = '07' },
  names = { ['00'] = 'partition_key', ['01'] = 'execution_id', ['02'] = 'position', ['03'] = 'name', ['04'] = 'kind', ['05'] = 'attempt_index', ['06'] = 'recorded_at_ms', ['07'] = 'value' },
  default_values = { kind = 'step', attempt_index = '0' },
  kept = { partition_key = true, execution_id = true, position = true },
}
T.ff_step.defaults = { __index = T.ff_step.default_values }
T.ff_claim_grant = {
  code = 't06', indexes = {},
  codes = { partition_key = '00', execution_id = '01', grant_id = '02', kind = '03', worker_id = '04', worker_instance_id = '05', lane_id = '06', capability_hash = '07', worker_capabilities = '08', route_snapshot_json = '09', admission_summary = '0a', grant_ttl_ms = '0b', issued_at_ms = '0c', expires_at_ms = '0d' },
  names = { ['00'] = 'partition_key', ['01'] = 'execution_id', ['02'] = 'grant_id', ['03'] = 'kind', ['04'] = 'worker_id', ['05'] = 'worker_instance_id', ['06'] = 'lane_id', ['07'] = 'capability_hash', ['08'] = 'worker_capabilities', ['09'] = 'route_snapshot_json', ['0a'] = 'admission_summary', ['0b'] = 'grant_ttl_ms', ['0c'] = 'issued_at_ms', ['0d'] = 'expires_at_ms' },
  default_values = { worker_capabilities = '[]' },
  kept = { partition_key = true, execution_id = true },
}
T.ff_claim_grant.defaults = { __index = T.ff_claim_grant.default_values }
T.ff_lane_registry = {
  code = 't07', indexes = {},
  codes = { lane_id = '00', registered_at_ms = '01', registered_by = '02', state = '03', updated_at_ms = '04' },
  names = { ['00'] = 'lane_id', ['01'] = 'registered_at_ms', ['02'] = 'registered_by', ['03'] = 'state', ['04'] = 'updated_at_ms' },
  default_values = { state = 'active', updated_at_ms = '0' },
  kept = { lane_id = true },
}
T.ff_lane_registry.defaults = { __index = T.ff_lane_registry.default_values }
T.ff_idempotency = {
  code = 't08', indexes = {},
  codes = { namespace = '00', idempotency_key = '01', partition_key = '02', execution_id = '03', expires_at_ms = '04', digest = '05' },
  names = { ['00'] = 'namespace', ['01'] = 'idempotency_key', ['02'] = 'partition_key', ['03'] = 'execution_id', ['04'] = 'expires_at_ms', ['05'] = 'digest' },
  default_values = {  },
  kept = { namespace = true, idempotency_key = true },
}
T.ff_idempotency.defaults = { __index = T.ff_idempotency.default_values }
T.ff_worker_registry = {
  code = 't09', indexes = {},
  codes = { namespace = '00', worker_instance_id = '01', worker_id = '02', lanes = '03', capabilities = '04', last_heartbeat_ms = '05', liveness_ttl_ms = '06', expires_at_ms = '07', registered_at_ms = '08', version = '09' },
  names = { ['00'] = 'namespace', ['01'] = 'worker_instance_id', ['02'] = 'worker_id', ['03'] = 'lanes', ['04'] = 'capabilities', ['05'] = 'last_heartbeat_ms', ['06'] = 'liveness_ttl_ms', ['07'] = 'expires_at_ms', ['08'] = 'registered_at_ms', ['09'] = 'version' },
  default_values = { lanes = '[]', capabilities = '[]', version = '0' },
  kept = { namespace = true, worker_instance_id = true },
}
T.ff_worker_registry.defaults = { __index = T.ff_worker_registry.default_values }
T.ff_worker_registry_event = {
  code = 't0a', indexes = {},
  codes = { event_id = '00', namespace = '01', worker_instance_id = '02', event_kind = '03', event_at_ms = '04', reason = '05' },
  names = { ['00'] = 'event_id', ['01'] = 'namespace', ['02'] = 'worker_instance_id', ['03'] = 'event_kind', ['04'] = 'event_at_ms', ['05'] = 'reason' },
  default_values = {  },
  kept = { event_id = true },
}
T.ff_worker_registry_event.defaults = { __index = T.ff_worker_registry_event.default_values }
T.ff_flow_core = {
  code = 't0b', indexes = {},
  codes = { partition_key = '00', flow_id = '01', graph_revision = '02', public_flow_state = '03', created_at_ms = '04', terminal_at_ms = '05', version = '06', settled_at_ms = '07', parent_partition = '08', parent_execution_id = '09', raw_fields = '0a' },
  names = { ['00'] = 'partition_key', ['01'] = 'flow_id', ['02'] = 'graph_revision', ['03'] = 'public_flow_state', ['04'] = 'created_at_ms', ['05'] = 'terminal_at_ms', ['06'] = 'version', ['07'] = 'settled_at_ms', ['08'] = 'parent_partition', ['09'] = 'parent_execution_id', ['0a'] = 'raw_fields' },
  default_values = { graph_revision = '0', public_flow_state = 'open', version = '0', raw_fields = '{}' },
  kept = { partition_key = true, flow_id = true },
}
T.ff_flow_core.defaults = { __index = T.ff_flow_core.default_values }
T.ff_edge = {
  code = 't0c', indexes = {},
  codes = { partition_key = '00', flow_id = '01', edge_id = '02', upstream_eid = '03', downstream_eid = '04', edge_state = '05', dep_state = '06', applied_at_ms = '07', last_resolved_at_ms = '08', reset_at_ms = '09', policy = '0a', policy_version = '0b' },
  names = { ['00'] = 'partition_key', ['01'] = 'flow_id', ['02'] = 'edge_id', ['03'] = 'upstream_eid', ['04'] = 'downstream_eid', ['05'] = 'edge_state', ['06'] = 'dep_state', ['07'] = 'applied_at_ms', ['08'] = 'last_resolved_at_ms', ['09'] = 'reset_at_ms', ['0a'] = 'policy', ['0b'] = 'policy_version' },
  default_values = { edge_state = 'pending', policy = '{}', policy_version = '0' },
  kept = { partition_key = true, flow_id = true, edge_id = true },
}
T.ff_edge.defaults = { __index = T.ff_edge.default_values }
T.ff_edge_group = {
  code = 't0d', indexes = {},
  codes = { partition_key = '00', flow_id = '01', downstream_eid = '02', policy = '03', k_target = '04', success_count = '05', fail_count = '06', skip_count = '07', running_count = '08', group_state = '09', satisfied_at_ms = '0a', cancel_siblings_pending_flag = '0b', cancel_siblings_pending_members = '0c', cancel_siblings_reason = '0d', version = '0e' },
  names = { ['00'] = 'partition_key', ['01'] = 'flow_id', ['02'] = 'downstream_eid', ['03'] = 'policy', ['04'] = 'k_target', ['05'] = 'success_count', ['06'] = 'fail_count', ['07'] = 'skip_count', ['08'] = 'running_count', ['09'] = 'group_state', ['0a'] = 'satisfied_at_ms', ['0b'] = 'cancel_siblings_pending_flag', ['0c'] = 'cancel_siblings_pending_members', ['0d'] = 'cancel_siblings_reason', ['0e'] = 'version' },
  default_values = { policy = '{}', k_target = '0', success_count = '0', fail_count = '0', skip_count = '0', running_count = '0', group_state = 'pending', cancel_siblings_pending_flag = '0', cancel_siblings_pending_members = '[]', version = '0' },
  kept = { partition_key = true, flow_id = true, downstream_eid = true },
}
T.ff_edge_group.defaults = { __index = T.ff_edge_group.default_values }
T.ff_pending_cancel_groups = {
  code = 't0e', indexes = {},
  codes = { partition_key = '00', flow_id = '01', downstream_eid = '02', enqueued_at_ms = '03' },
  names = { ['00'] = 'partition_key', ['01'] = 'flow_id', ['02'] = 'downstream_eid', ['03'] = 'enqueued_at_ms' },
  default_values = {  },
  kept = { partition_key = true, flow_id = true, downstream_eid = true },
}
T.ff_pending_cancel_groups.defaults = { __index = T.ff_pending_cancel_groups.default_values }
T.ff_cancel_backlog = {
  code = 't0f', indexes = {},
  codes = { partition_key = '00', flow_id = '01', requested_at_ms = '02', requester = '03', reason = '04', grace_until_ms = '05', cancellation_policy = '06', status = '07' },
  names = { ['00'] = 'partition_key', ['01'] = 'flow_id', ['02'] = 'requested_at_ms', ['03'] = 'requester', ['04'] = 'reason', ['05'] = 'grace_until_ms', ['06'] = 'cancellation_policy', ['07'] = 'status' },
  default_values = { requester = '', reason = '', status = 'pending' },
  kept = { partition_key = true, flow_id = true },
}
T.ff_cancel_backlog.defaults = { __index = T.ff_cancel_backlog.default_values }
T.ff_cancel_backlog_member = {
  code = 't0g', indexes = {},
  codes = { partition_key = '00', flow_id = '01', execution_id = '02' },
  names = { ['00'] = 'partition_key', ['01'] = 'flow_id', ['02'] = 'execution_id' },
  default_values = {  },
  kept = { partition_key = true, flow_id = true, execution_id = true },
}
T.ff_cancel_backlog_member.defaults = { __index = T.ff_cancel_backlog_member.default_values }
T.ff_flow_summary = {
  code = 't0h', indexes = {},
  codes = { partition_key = '00', flow_id = '01', total_members = '02', sampled_members = '03', members_completed = '04', members_failed = '05', members_cancelled = '06', members_expired = '07', members_skipped = '08', members_active = '09', members_suspended = '0a', members_waiting = '0b', members_delayed = '0c', members_rate_limited = '0d', members_waiting_children = '0e', public_flow_state = '0f', last_summary_update_at = '0g' },
  names = { ['00'] = 'partition_key', ['01'] = 'flow_id', ['02'] = 'total_members', ['03'] = 'sampled_members', ['04'] = 'members_completed', ['05'] = 'members_failed', ['06'] = 'members_cancelled', ['07'] = 'members_expired', ['08'] = 'members_skipped', ['09'] = 'members_active', ['0a'] = 'members_suspended', ['0b'] = 'members_waiting', ['0c'] = 'members_delayed', ['0d'] = 'members_rate_limited', ['0e'] = 'members_waiting_children', ['0f'] = 'public_flow_state', ['0g'] = 'last_summary_update_at' },
  default_values = { total_members = '0', sampled_members = '0', members_completed = '0', members_failed = '0', members_cancelled = '0', members_expired = '0', members_skipped = '0', members_active = '0', members_suspended = '0', members_waiting = '0', members_delayed = '0', members_rate_limited = '0', members_waiting_children = '0' },
  kept = { partition_key = true, flow_id = true },
}
T.ff_flow_summary.defaults = { __index = T.ff_flow_summary.default_values }
T.ff_lease_event = {
  code = 't0i', indexes = {},
  codes = { event_id = '00', execution_id = '01', lease_id = '02', lease_epoch = '03', worker_instance_id = '04', event_type = '05', reason = '06', occurred_at_ms = '07', partition_key = '08', namespace = '09', instance_tag = '0a' },
  names = { ['00'] = 'event_id', ['01'] = 'execution_id', ['02'] = 'lease_id', ['03'] = 'lease_epoch', ['04'] = 'worker_instance_id', ['05'] = 'event_type', ['06'] = 'reason', ['07'] = 'occurred_at_ms', ['08'] = 'partition_key', ['09'] = 'namespace', ['0a'] = 'instance_tag' },
  default_values = { partition_key = '0' },
  kept = { event_id = true },
}
T.ff_lease_event.defaults = { __index = T.ff_lease_event.default_values }
T.ff_completion_event = {
  code = 't0j', indexes = {},
  codes = { event_id = '00', execution_id = '01', flow_id = '02', outcome = '03', occurred_at_ms = '04', committed_at_ms = '05', dispatched_at_ms = '06', partition_key = '07', namespace = '08', instance_tag = '09' },
  names = { ['00'] = 'event_id', ['01'] = 'execution_id', ['02'] = 'flow_id', ['03'] = 'outcome', ['04'] = 'occurred_at_ms', ['05'] = 'committed_at_ms', ['06'] = 'dispatched_at_ms', ['07'] = 'partition_key', ['08'] = 'namespace', ['09'] = 'instance_tag' },
  default_values = { committed_at_ms = '0', partition_key = '0' },
  kept = { event_id = true },
}
T.ff_completion_event.defaults = { __index = T.ff_completion_event.default_values }
T.ff_operator_event = {
  code = 't0k', indexes = {},
  codes = { event_id = '00', execution_id = '01', event_type = '02', details = '03', occurred_at_ms = '04', partition_key = '05', namespace = '06', instance_tag = '07' },
  names = { ['00'] = 'event_id', ['01'] = 'execution_id', ['02'] = 'event_type', ['03'] = 'details', ['04'] = 'occurred_at_ms', ['05'] = 'partition_key', ['06'] = 'namespace', ['07'] = 'instance_tag' },
  default_values = { partition_key = '0' },
  kept = { event_id = true },
}
T.ff_operator_event.defaults = { __index = T.ff_operator_event.default_values }
T.ff_suspension_current = {
  code = 't0l', indexes = {},
  codes = { partition_key = '00', execution_id = '01', suspension_id = '02', suspended_at_ms = '03', timeout_at_ms = '04', reason_code = '05', condition = '06', satisfied_set = '07', timeout_behavior = '08', attempt_index = '09', requested_by = '0a', resume_policy = '0b', continuation_metadata_pointer = '0c', primary_waitpoint_id = '0d', last_signal_at_ms = '0e', closer_signal_id = '0f', satisfier_signal_ids = '0g', closed_at_ms = '0h', close_reason = '0i', version = '0j' },
  names = { ['00'] = 'partition_key', ['01'] = 'execution_id', ['02'] = 'suspension_id', ['03'] = 'suspended_at_ms', ['04'] = 'timeout_at_ms', ['05'] = 'reason_code', ['06'] = 'condition', ['07'] = 'satisfied_set', ['08'] = 'timeout_behavior', ['09'] = 'attempt_index', ['0a'] = 'requested_by', ['0b'] = 'resume_policy', ['0c'] = 'continuation_metadata_pointer', ['0d'] = 'primary_waitpoint_id', ['0e'] = 'last_signal_at_ms', ['0f'] = 'closer_signal_id', ['0g'] = 'satisfier_signal_ids', ['0h'] = 'closed_at_ms', ['0i'] = 'close_reason', ['0j'] = 'version' },
  default_values = { satisfied_set = '[]', attempt_index = '0', requested_by = 'worker', resume_policy = '{}', satisfier_signal_ids = '[]', version = '0' },
  kept = { partition_key = true, execution_id = true },
}
T.ff_suspension_current.defaults = { __index = T.ff_suspension_current.default_values }
T.ff_waitpoint_pending = {
  code = 't0m', indexes = {},
  codes = { partition_key = '00', waitpoint_id = '01', execution_id = '02', token_kid = '03', token_digest = '04', created_at_ms = '05', expires_at_ms = '06', waitpoint_key = '07', state = '08', required_signal_names = '09', activated_at_ms = '0a', attempt_index = '0b', suspension_id = '0c', signal_count = '0d', matched_signal_count = '0e', last_signal_at_ms = '0f', satisfied_at_ms = '0g', closed_at_ms = '0h', close_reason = '0i', version = '0j', signals_trimmed = '0k', payload_schema = '0l', approvers = '0m' },
  names = { ['00'] = 'partition_key', ['01'] = 'waitpoint_id', ['02'] = 'execution_id', ['03'] = 'token_kid', ['04'] = 'token_digest', ['05'] = 'created_at_ms', ['06'] = 'expires_at_ms', ['07'] = 'waitpoint_key', ['08'] = 'state', ['09'] = 'required_signal_names', ['0a'] = 'activated_at_ms', ['0b'] = 'attempt_index', ['0c'] = 'suspension_id', ['0d'] = 'signal_count', ['0e'] = 'matched_signal_count', ['0f'] = 'last_signal_at_ms', ['0g'] = 'satisfied_at_ms', ['0h'] = 'closed_at_ms', ['0i'] = 'close_reason', ['0j'] = 'version', ['0k'] = 'signals_trimmed', ['0l'] = 'payload_schema', ['0m'] = 'approvers' },
  default_values = { waitpoint_key = '', state = 'pending', required_signal_names = '[]', attempt_index = '0', signal_count = '0', matched_signal_count = '0', version = '0', signals_trimmed = '0', approvers = '[]' },
  kept = { partition_key = true, waitpoint_id = true },
}
T.ff_waitpoint_pending.defaults = { __index = T.ff_waitpoint_pending.default_values }
T.ff_signal = {
  code = 't0n', indexes = {},
  codes = { partition_key = '00', execution_id = '01', signal_id = '02', waitpoint_id = '03', waitpoint_key = '04', suspension_id = '05', attempt_index = '06', signal_name = '07', signal_category = '08', source_type = '09', source_identity = '0a', correlation_id = '0b', payload_encoding = '0c', target_scope = '0d', idempotency_key = '0e', created_at_ms = '0f', accepted_at_ms = '0g', observed_effect = '0h', matched = '0i', payload = '0j', comment = '0k', link = '0l' },
  names = { ['00'] = 'partition_key', ['01'] = 'execution_id', ['02'] = 'signal_id', ['03'] = 'waitpoint_id', ['04'] = 'waitpoint_key', ['05'] = 'suspension_id', ['06'] = 'attempt_index', ['07'] = 'signal_name', ['08'] = 'signal_category', ['09'] = 'source_type', ['0a'] = 'source_identity', ['0b'] = 'correlation_id', ['0c'] = 'payload_encoding', ['0d'] = 'target_scope', ['0e'] = 'idempotency_key', ['0f'] = 'created_at_ms', ['0g'] = 'accepted_at_ms', ['0h'] = 'observed_effect', ['0i'] = 'matched', ['0j'] = 'payload', ['0k'] = 'comment', ['0l'] = 'link' },
  default_values = { waitpoint_key = '', attempt_index = '0', signal_name = '', signal_category = '', source_type = '', source_identity = '', correlation_id = '', target_scope = '', matched = '0', comment = '', link = '' },
  kept = { partition_key = true, execution_id = true, signal_id = true },
}
T.ff_signal.defaults = { __index = T.ff_signal.default_values }
T.ff_signal_dedup = {
  code = 't0o', indexes = {},
  codes = { partition_key = '00', waitpoint_id = '01', idempotency_key = '02', execution_id = '03', signal_id = '04', expires_at_ms = '05' },
  names = { ['00'] = 'partition_key', ['01'] = 'waitpoint_id', ['02'] = 'idempotency_key', ['03'] = 'execution_id', ['04'] = 'signal_id', ['05'] = 'expires_at_ms' },
  default_values = {  },
  kept = { partition_key = true, waitpoint_id = true, idempotency_key = true },
}
T.ff_signal_dedup.defaults = { __index = T.ff_signal_dedup.default_values }
T.ff_suspend_dedup = {
  code = 't0p', indexes = {},
  codes = { partition_key = '00', idempotency_key = '01', execution_id = '02', outcome_json = '03', created_at_ms = '04', expires_at_ms = '05' },
  names = { ['00'] = 'partition_key', ['01'] = 'idempotency_key', ['02'] = 'execution_id', ['03'] = 'outcome_json', ['04'] = 'created_at_ms', ['05'] = 'expires_at_ms' },
  default_values = {  },
  kept = { partition_key = true, idempotency_key = true },
}
T.ff_suspend_dedup.defaults = { __index = T.ff_suspend_dedup.default_values }
T.ff_waitpoint_hmac = {
  code = 't0q', indexes = {},
  codes = { kid = '00', rotated_at_ms = '01', active = '02', expires_at_ms = '03', secret = '04' },
  names = { ['00'] = 'kid', ['01'] = 'rotated_at_ms', ['02'] = 'active', ['03'] = 'expires_at_ms', ['04'] = 'secret' },
  default_values = { active = '0' },
  kept = { kid = true },
}
T.ff_waitpoint_hmac.defaults = { __index = T.ff_waitpoint_hmac.default_values }
T.ff_signal_event = {
  code = 't0r', indexes = {},
  codes = { event_id = '00', execution_id = '01', signal_id = '02', waitpoint_id = '03', source_identity = '04', event_type = '05', occurred_at_ms = '06', partition_key = '07', namespace = '08', instance_tag = '09' },
  names = { ['00'] = 'event_id', ['01'] = 'execution_id', ['02'] = 'signal_id', ['03'] = 'waitpoint_id', ['04'] = 'source_identity', ['05'] = 'event_type', ['06'] = 'occurred_at_ms', ['07'] = 'partition_key', ['08'] = 'namespace', ['09'] = 'instance_tag' },
  default_values = { partition_key = '0' },
  kept = { event_id = true },
}
T.ff_signal_event.defaults = { __index = T.ff_signal_event.default_values }
T.ff_outbox_trim = {
  code = 't0s', indexes = {},
  codes = { channel = '00', event_id = '01' },
  names = { ['00'] = 'channel', ['01'] = 'event_id' },
  default_values = {  },
  kept = { channel = true },
}
T.ff_outbox_trim.defaults = { __index = T.ff_outbox_trim.default_values }
T.ff_budget_policy = {
  code = 't0t', indexes = {},
  codes = { budget_id = '00', partition_key = '01', namespace = '02', policy_json = '03', scope_type = '04', scope_id = '05', enforcement_mode = '06', breach_count = '07', soft_breach_count = '08', last_breach_at_ms = '09', last_breach_dim = '0a', next_reset_at_ms = '0b', changed_at_ms = '0c', created_at_ms = '0d', updated_at_ms = '0e', version = '0f' },
  names = { ['00'] = 'budget_id', ['01'] = 'partition_key', ['02'] = 'namespace', ['03'] = 'policy_json', ['04'] = 'scope_type', ['05'] = 'scope_id', ['06'] = 'enforcement_mode', ['07'] = 'breach_count', ['08'] = 'soft_breach_count', ['09'] = 'last_breach_at_ms', ['0a'] = 'last_breach_dim', ['0b'] = 'next_reset_at_ms', ['0c'] = 'changed_at_ms', ['0d'] = 'created_at_ms', ['0e'] = 'updated_at_ms', ['0f'] = 'version' },
  default_values = { partition_key = '0', namespace = 'default', scope_type = '', scope_id = '', enforcement_mode = '', breach_count = '0', soft_breach_count = '0', version = '0' },
  kept = { budget_id = true },
}
T.ff_budget_policy.defaults = { __index = T.ff_budget_policy.default_values }
T.ff_budget_usage = {
  code = 't0u', indexes = {},
  codes = { budget_id = '00', dimensions_key = '01', partition_key = '02', current_value = '03', last_reset_at_ms = '04', updated_at_ms = '05' },
  names = { ['00'] = 'budget_id', ['01'] = 'dimensions_key', ['02'] = 'partition_key', ['03'] = 'current_value', ['04'] = 'last_reset_at_ms', ['05'] = 'updated_at_ms' },
  default_values = { partition_key = '0', current_value = '0', updated_at_ms = '0' },
  kept = { budget_id = true, dimensions_key = true },
}
T.ff_budget_usage.defaults = { __index = T.ff_budget_usage.default_values }
T.ff_budget_usage_dedup = {
  code = 't0v', indexes = {},
  codes = { budget_id = '00', dedup_key = '01', partition_key = '02', outcome_json = '03', applied_at_ms = '04', expires_at_ms = '05' },
  names = { ['00'] = 'budget_id', ['01'] = 'dedup_key', ['02'] = 'partition_key', ['03'] = 'outcome_json', ['04'] = 'applied_at_ms', ['05'] = 'expires_at_ms' },
  default_values = { partition_key = '0', outcome_json = '{}' },
  kept = { budget_id = true, dedup_key = true },
}
T.ff_budget_usage_dedup.defaults = { __index = T.ff_budget_usage_dedup.default_values }
T.ff_budget_usage_by_exec = {
  code = 't0w', indexes = {},
  codes = { partition_key = '00', execution_id = '01', dimensions_key = '02', budget_id = '03', delta_total = '04', updated_at_ms = '05' },
  names = { ['00'] = 'partition_key', ['01'] = 'execution_id', ['02'] = 'dimensions_key', ['03'] = 'budget_id', ['04'] = 'delta_total', ['05'] = 'updated_at_ms' },
  default_values = { delta_total = '0', updated_at_ms = '0' },
  kept = { partition_key = true, execution_id = true, dimensions_key = true, budget_id = true },
}
T.ff_budget_usage_by_exec.defaults = { __index = T.ff_budget_usage_by_exec.default_values }
T.ff_quota_policy = {
  code = 't0x', indexes = {},
  codes = { quota_policy_id = '00', partition_key = '01', namespace = '02', requests_per_window_seconds = '03', max_requests_per_window = '04', active_concurrency_cap = '05', active_concurrency = '06', jitter_ms = '07', closed_until_ms = '08', changed_at_ms = '09', created_at_ms = '0a', updated_at_ms = '0b', version = '0c' },
  names = { ['00'] = 'quota_policy_id', ['01'] = 'partition_key', ['02'] = 'namespace', ['03'] = 'requests_per_window_seconds', ['04'] = 'max_requests_per_window', ['05'] = 'active_concurrency_cap', ['06'] = 'active_concurrency', ['07'] = 'jitter_ms', ['08'] = 'closed_until_ms', ['09'] = 'changed_at_ms', ['0a'] = 'created_at_ms', ['0b'] = 'updated_at_ms', ['0c'] = 'version' },
  default_values = { partition_key = '0', namespace = 'default', active_concurrency = '0', jitter_ms = '0', version = '0' },
  kept = { quota_policy_id = true },
}
T.ff_quota_policy.defaults = { __index = T.ff_quota_policy.default_values }
T.ff_quota_window = {
  code = 't0y', indexes = {},
  codes = { quota_policy_id = '00', dimension = '01', admitted_at_ms = '02', execution_id = '03' },
  names = { ['00'] = 'quota_policy_id', ['01'] = 'dimension', ['02'] = 'admitted_at_ms', ['03'] = 'execution_id' },
  default_values = {  },
  kept = { quota_policy_id = true, dimension = true, admitted_at_ms = true, execution_id = true },
}
T.ff_quota_window.defaults = { __index = T.ff_quota_window.default_values }
T.ff_quota_admitted = {
  code = 't0z', indexes = {},
  codes = { quota_policy_id = '00', execution_id = '01', admitted_at_ms = '02', expires_at_ms = '03' },
  names = { ['00'] = 'quota_policy_id', ['01'] = 'execution_id', ['02'] = 'admitted_at_ms', ['03'] = 'expires_at_ms' },
  default_values = {  },
  kept = { quota_policy_id = true, execution_id = true },
}
T.ff_quota_admitted.defaults = { __index = T.ff_quota_admitted.default_values }
T.ff_limit_scope = {
  code = 't0A', indexes = {},
  codes = { scope_type = '00', scope_id = '01', kind = '02', limit_id = '03', attached_at_ms = '04', namespace = '05' },
  names = { ['00'] = 'scope_type', ['01'] = 'scope_id', ['02'] = 'kind', ['03'] = 'limit_id', ['04'] = 'attached_at_ms', ['05'] = 'namespace' },
  default_values = { namespace = 'default' },
  kept = { scope_type = true, scope_id = true, kind = true, limit_id = true },
}
T.ff_limit_scope.defaults = { __index = T.ff_limit_scope.default_values }
T.ff_lane_gate = {
  code = 't0B', indexes = {},
  codes = { lane_id = '00', namespace = '01', gate = '02', quota_policy_id = '03' },
  names = { ['00'] = 'lane_id', ['01'] = 'namespace', ['02'] = 'gate', ['03'] = 'quota_policy_id' },
  default_values = {  },
  kept = { lane_id = true, namespace = true, gate = true },
}
T.ff_lane_gate.defaults = { __index = T.ff_lane_gate.default_values }
T.ff_task = {
  code = 't0C', indexes = {},
  codes = { namespace = '00', name = '01', fingerprint = '02', task_version = '03', quota_policy_id = '04', declared_at_ms = '05', registered_at_ms = '06', changed_at_ms = '07', last_seen_ms = '08', version = '09', head = '0a', declaration = '0b' },
  names = { ['00'] = 'namespace', ['01'] = 'name', ['02'] = 'fingerprint', ['03'] = 'task_version', ['04'] = 'quota_policy_id', ['05'] = 'declared_at_ms', ['06'] = 'registered_at_ms', ['07'] = 'changed_at_ms', ['08'] = 'last_seen_ms', ['09'] = 'version', ['0a'] = 'head', ['0b'] = 'declaration' },
  default_values = { task_version = '0', version = '0' },
  kept = { namespace = true, name = true },
}
T.ff_task.defaults = { __index = T.ff_task.default_values }
T.ff_schedule = {
  code = 't0D', indexes = {},
  codes = { namespace = '00', name = '01', cursor_ms = '02', paused = '03' },
  names = { ['00'] = 'namespace', ['01'] = 'name', ['02'] = 'cursor_ms', ['03'] = 'paused' },
  default_values = { paused = '0' },
  kept = { namespace = true, name = true },
}
T.ff_schedule.defaults = { __index = T.ff_schedule.default_values }
T.ff_bulk_job = {
  code = 't0E', indexes = {},
  codes = { job_id = '00', namespace = '01', action = '02', args = '03', state = '04', cursor = '05', matched = '06', changed = '07', skipped = '08', refused = '09', errors = '0a', follow_ups = '0b', created_at_ms = '0c', updated_at_ms = '0d', ended_at_ms = '0e', version = '0f' },
  names = { ['00'] = 'job_id', ['01'] = 'namespace', ['02'] = 'action', ['03'] = 'args', ['04'] = 'state', ['05'] = 'cursor', ['06'] = 'matched', ['07'] = 'changed', ['08'] = 'skipped', ['09'] = 'refused', ['0a'] = 'errors', ['0b'] = 'follow_ups', ['0c'] = 'created_at_ms', ['0d'] = 'updated_at_ms', ['0e'] = 'ended_at_ms', ['0f'] = 'version' },
  default_values = { state = 'running', matched = '0', changed = '0', skipped = '0', refused = '0', errors = '[]', follow_ups = '[]', version = '0' },
  kept = { job_id = true },
}
T.ff_bulk_job.defaults = { __index = T.ff_bulk_job.default_values }
T.ff_api_token = {
  code = 't0F', indexes = {},
  codes = { token_id = '00', name = '01', digest = '02', former_digest = '03', former_until_ms = '04', roles = '05', namespace = '06', lanes = '07', created_at_ms = '08', created_by = '09', expires_at_ms = '0a', rotated_at_ms = '0b', revoked_at_ms = '0c', last_used_at_ms = '0d', version = '0e' },
  names = { ['00'] = 'token_id', ['01'] = 'name', ['02'] = 'digest', ['03'] = 'former_digest', ['04'] = 'former_until_ms', ['05'] = 'roles', ['06'] = 'namespace', ['07'] = 'lanes', ['08'] = 'created_at_ms', ['09'] = 'created_by', ['0a'] = 'expires_at_ms', ['0b'] = 'rotated_at_ms', ['0c'] = 'revoked_at_ms', ['0d'] = 'last_used_at_ms', ['0e'] = 'version' },
  default_values = { created_by = '', version = '0' },
  kept = { token_id = true },
}
T.ff_api_token.defaults = { __index = T.ff_api_token.default_values }
I.i00 = { -- executions of ff_exec_core
  code = 'i00', t = T.ff_exec_core,
  grouped = true, primary = true,
  columns = { 'partition_key', 'execution_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) end,
  order = function(r) return uuid(r.execution_id) end,
  key_of = function(member) return member end,
}
I.i01 = { -- unowned of ff_exec_core
  code = 'i01', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'ownership_state', 'created_at_ms', 'execution_id' },
  test = function(r) return differs(r.ownership_state, 'leased') and differs(r.ownership_state, 'lease_expired_reclaimable') end,
  group = function(r) return '' end,
  order = function(r) return int(r.created_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i01
I.i02 = { -- suspended_executions of ff_exec_core
  code = 'i02', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'lifecycle_phase', 'created_at_ms', 'execution_id' },
  test = function(r) return same(r.lifecycle_phase, 'suspended') end,
  group = function(r) return '' end,
  order = function(r) return int(r.created_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i02
I.i03 = { -- ready of ff_exec_core
  code = 'i03', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'lane_id', 'namespace', 'gate', 'priority', 'created_at_ms', 'execution_id' },
  test = function(r) return same(r.lifecycle_phase, 'runnable') and same(r.eligibility_state, 'eligible_now') end,
  group = function(r) return word(r.lane_id) .. word(r.namespace) .. word(r.gate) end,
  order = function(r) return int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 32) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i03
I.i06 = { -- held of ff_exec_core
  code = 'i06', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'quota_policy_id', 'ownership_state', 'execution_id' },
  test = function(r) return r.quota_policy_id ~= nil and same(r.ownership_state, 'leased') end,
  group = function(r) return uuid(r.quota_policy_id) end,
  order = function(r) return uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i06
I.i07 = { -- reserved of ff_exec_core
  code = 'i07', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'quota_policy_id', 'reserved_until_ms', 'execution_id' },
  test = function(r) return r.quota_policy_id ~= nil and r.reserved_until_ms ~= nil end,
  group = function(r) return uuid(r.quota_policy_id) end,
  order = function(r) return int(r.reserved_until_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i07
I.i08 = { -- blocked_on of ff_exec_core
  code = 'i08', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'eligibility_state', 'blocked_on', 'priority', 'created_at_ms', 'execution_id' },
  test = function(r) return (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil end,
  group = function(r) return word(r.blocked_on) end,
  order = function(r) return int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 32) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i08
I.i09 = { -- delayed of ff_exec_core
  code = 'i09', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'delay_until_ms', 'execution_id' },
  test = function(r) return same(r.lifecycle_phase, 'runnable') and same(r.eligibility_state, 'not_eligible_until_time') end,
  group = function(r) return '' end,
  order = function(r) return int(r.delay_until_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i09
I.i0a = { -- leased of ff_exec_core
  code = 'i0a', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'ownership_state', 'lease_expires_at_ms', 'execution_id' },
  test = function(r) return same(r.ownership_state, 'leased') end,
  group = function(r) return '' end,
  order = function(r) return int(r.lease_expires_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i0a
I.i0b = { -- lost of ff_exec_core
  code = 'i0b', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'ownership_state', 'lease_expires_at_ms', 'execution_id' },
  test = function(r) return same(r.ownership_state, 'lease_expired_reclaimable') end,
  group = function(r) return '' end,
  order = function(r) return int(r.lease_expires_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i0b
I.i0c = { -- attempt_timeout of ff_exec_core
  code = 'i0c', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'attempt_timeout_at_ms', 'lifecycle_phase', 'execution_id' },
  test = function(r) return r.attempt_timeout_at_ms ~= nil and same(r.lifecycle_phase, 'active') end,
  group = function(r) return '' end,
  order = function(r) return int(r.attempt_timeout_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i0c
I.i0d = { -- deadline of ff_exec_core
  code = 'i0d', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'deadline_at_ms', 'lifecycle_phase', 'execution_id' },
  test = function(r) return r.deadline_at_ms ~= nil and (r.lifecycle_phase == 'submitted' or r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'active' or r.lifecycle_phase == 'suspended') end,
  group = function(r) return '' end,
  order = function(r) return int(r.deadline_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i0d
I.i0e = { -- routed of ff_exec_core
  code = 'i0e', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'last_transition_at', 'execution_id' },
  test = function(r) return same(r.lifecycle_phase, 'runnable') and same(r.eligibility_state, 'blocked_by_route') end,
  group = function(r) return '' end,
  order = function(r) return int(r.last_transition_at) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i0e
I.i0f = { -- limited of ff_exec_core
  code = 'i0f', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'last_transition_at', 'execution_id' },
  test = function(r) return same(r.lifecycle_phase, 'runnable') and (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') end,
  group = function(r) return '' end,
  order = function(r) return int(r.last_transition_at) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i0f
I.i0g = { -- blocked of ff_exec_core
  code = 'i0g', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'last_transition_at', 'execution_id' },
  test = function(r) return same(r.lifecycle_phase, 'runnable') and (r.eligibility_state == 'blocked_by_operator' or r.eligibility_state == 'blocked_by_lane_state') end,
  group = function(r) return '' end,
  order = function(r) return int(r.last_transition_at) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i0g
I.i0h = { -- ended of ff_exec_core
  code = 'i0h', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'lifecycle_phase', 'retain_until_ms', 'terminal_outcome', 'lane_id', 'terminal_at_ms', 'execution_id' },
  test = function(r) return (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and differs(r.terminal_outcome, 'failed') and differs(r.terminal_outcome, 'expired') end,
  group = function(r) return word(r.lane_id) end,
  order = function(r) return int(r.terminal_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i0h
I.i0i = { -- failed of ff_exec_core
  code = 'i0i', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'lifecycle_phase', 'retain_until_ms', 'terminal_outcome', 'lane_id', 'terminal_at_ms', 'execution_id' },
  test = function(r) return (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome == 'failed' or r.terminal_outcome == 'expired') end,
  group = function(r) return word(r.lane_id) end,
  order = function(r) return int(r.terminal_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i0i
I.i0j = { -- retained of ff_exec_core
  code = 'i0j', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'lifecycle_phase', 'retain_until_ms', 'lane_id', 'execution_id' },
  test = function(r) return (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms ~= nil end,
  group = function(r) return word(r.lane_id) end,
  order = function(r) return int(r.retain_until_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i0j
I.i0k = { -- attempts of ff_attempt
  code = 'i0k', t = T.ff_attempt,
  grouped = true, primary = true,
  columns = { 'partition_key', 'execution_id', 'attempt_index' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return int(r.attempt_index) end,
  key_of = function(member) return member end,
}
I.i0l = { -- last_attempt of ff_attempt
  code = 'i0l', t = T.ff_attempt,
  grouped = true, primary = true,
  back = true,
  columns = { 'partition_key', 'execution_id', 'attempt_index' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return int_desc(r.attempt_index) end,
  key_of = function(member) return member end,
}
I.i0m = { -- grants of ff_claim_grant
  code = 'i0m', t = T.ff_claim_grant,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'execution_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_claim_grant.indexes[#T.ff_claim_grant.indexes + 1] = I.i0m
I.i0n = { -- lanes of ff_lane_registry
  code = 'i0n', t = T.ff_lane_registry,
  grouped = false, primary = true,
  columns = { 'lane_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.lane_id) end,
  key_of = function(member) return member end,
}
I.i0o = { -- idempotency of ff_idempotency
  code = 'i0o', t = T.ff_idempotency,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'namespace', 'idempotency_key' },
  test = function(r) return r.expires_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. word(r.namespace) .. word(r.idempotency_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 8) + 1 at = string.find(member, '%z', at + 0) + 1 return sub(member, at + 0) end,
}
T.ff_idempotency.indexes[#T.ff_idempotency.indexes + 1] = I.i0o
I.i0p = { -- workers of ff_worker_registry
  code = 'i0p', t = T.ff_worker_registry,
  grouped = true, primary = true,
  columns = { 'namespace', 'worker_instance_id' },
  test = function(r) return true end,
  group = function(r) return word(r.namespace) end,
  order = function(r) return word(r.worker_instance_id) end,
  key_of = function(member) return member end,
}
I.i0q = { -- all_workers of ff_worker_registry
  code = 'i0q', t = T.ff_worker_registry,
  grouped = false, primary = true,
  columns = { 'namespace', 'worker_instance_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.namespace) .. word(r.worker_instance_id) end,
  key_of = function(member) return member end,
}
I.i0r = { -- worker_expiry of ff_worker_registry
  code = 'i0r', t = T.ff_worker_registry,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'namespace', 'worker_instance_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. word(r.namespace) .. word(r.worker_instance_id) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 8) + 1 at = string.find(member, '%z', at + 0) + 1 return sub(member, at + 0) end,
}
T.ff_worker_registry.indexes[#T.ff_worker_registry.indexes + 1] = I.i0r
I.i0s = { -- worker_events of ff_worker_registry_event
  code = 'i0s', t = T.ff_worker_registry_event,
  grouped = false, primary = false,
  columns = { 'event_at_ms', 'event_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.event_at_ms) .. int(r.event_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_worker_registry_event.indexes[#T.ff_worker_registry_event.indexes + 1] = I.i0s
I.i0t = { -- members of ff_exec_core
  code = 'i0t', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'flow_id', 'partition_key', 'execution_id' },
  test = function(r) return r.flow_id ~= nil end,
  group = function(r) return int(r.partition_key) .. uuid(r.flow_id) end,
  order = function(r) return uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i0t
I.i0u = { -- dependent of ff_exec_core
  code = 'i0u', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'last_transition_at', 'execution_id' },
  test = function(r) return same(r.lifecycle_phase, 'runnable') and same(r.eligibility_state, 'blocked_by_dependencies') end,
  group = function(r) return '' end,
  order = function(r) return int(r.last_transition_at) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.i0u
I.i0v = { -- flows of ff_flow_core
  code = 'i0v', t = T.ff_flow_core,
  grouped = true, primary = true,
  columns = { 'partition_key', 'flow_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) end,
  order = function(r) return uuid(r.flow_id) end,
  key_of = function(member) return member end,
}
I.i0w = { -- unsettled_flows of ff_flow_core
  code = 'i0w', t = T.ff_flow_core,
  grouped = false, primary = false,
  columns = { 'settled_at_ms', 'created_at_ms', 'flow_id' },
  test = function(r) return r.settled_at_ms == nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.created_at_ms) .. uuid(r.flow_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_flow_core.indexes[#T.ff_flow_core.indexes + 1] = I.i0w
I.i0x = { -- children_of of ff_flow_core
  code = 'i0x', t = T.ff_flow_core,
  grouped = true, primary = false,
  columns = { 'parent_execution_id', 'parent_partition', 'flow_id' },
  test = function(r) return r.parent_execution_id ~= nil end,
  group = function(r) return int(r.parent_partition) .. uuid(r.parent_execution_id) end,
  order = function(r) return uuid(r.flow_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_flow_core.indexes[#T.ff_flow_core.indexes + 1] = I.i0x
I.i0y = { -- edges of ff_edge
  code = 'i0y', t = T.ff_edge,
  grouped = true, primary = true,
  columns = { 'partition_key', 'flow_id', 'edge_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.flow_id) end,
  order = function(r) return uuid(r.edge_id) end,
  key_of = function(member) return member end,
}
I.i0z = { -- edges_out of ff_edge
  code = 'i0z', t = T.ff_edge,
  grouped = true, primary = false,
  columns = { 'partition_key', 'upstream_eid', 'edge_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.upstream_eid) end,
  order = function(r) return uuid(r.edge_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_edge.indexes[#T.ff_edge.indexes + 1] = I.i0z
I.i0A = { -- edges_in of ff_edge
  code = 'i0A', t = T.ff_edge,
  grouped = true, primary = false,
  columns = { 'partition_key', 'downstream_eid', 'edge_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.downstream_eid) end,
  order = function(r) return uuid(r.edge_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_edge.indexes[#T.ff_edge.indexes + 1] = I.i0A
I.i0B = { -- groups_of_flow of ff_edge_group
  code = 'i0B', t = T.ff_edge_group,
  grouped = true, primary = true,
  columns = { 'partition_key', 'flow_id', 'downstream_eid' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.flow_id) end,
  order = function(r) return uuid(r.downstream_eid) end,
  key_of = function(member) return member end,
}
I.i0C = { -- cancel_groups of ff_pending_cancel_groups
  code = 'i0C', t = T.ff_pending_cancel_groups,
  grouped = false, primary = false,
  columns = { 'enqueued_at_ms', 'flow_id', 'downstream_eid' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.enqueued_at_ms) .. uuid(r.flow_id) .. uuid(r.downstream_eid) end,
  key_of = function(member) local at = 1 return sub(member, at + 40) end,
}
T.ff_pending_cancel_groups.indexes[#T.ff_pending_cancel_groups.indexes + 1] = I.i0C
I.i0D = { -- cancel_backlog of ff_cancel_backlog
  code = 'i0D', t = T.ff_cancel_backlog,
  grouped = false, primary = false,
  columns = { 'grace_until_ms', 'flow_id' },
  test = function(r) return r.grace_until_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.grace_until_ms) .. uuid(r.flow_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_cancel_backlog.indexes[#T.ff_cancel_backlog.indexes + 1] = I.i0D
I.i0E = { -- cancel_backlog_since of ff_cancel_backlog
  code = 'i0E', t = T.ff_cancel_backlog,
  grouped = false, primary = false,
  columns = { 'grace_until_ms', 'requested_at_ms', 'flow_id' },
  test = function(r) return r.grace_until_ms == nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.requested_at_ms) .. uuid(r.flow_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_cancel_backlog.indexes[#T.ff_cancel_backlog.indexes + 1] = I.i0E
I.i0F = { -- cancel_backlog_members of ff_cancel_backlog_member
  code = 'i0F', t = T.ff_cancel_backlog_member,
  grouped = true, primary = true,
  columns = { 'partition_key', 'flow_id', 'execution_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.flow_id) end,
  order = function(r) return word(r.execution_id) end,
  key_of = function(member) return member end,
}
I.i0G = { -- undispatched of ff_completion_event
  code = 'i0G', t = T.ff_completion_event,
  grouped = false, primary = false,
  columns = { 'dispatched_at_ms', 'flow_id', 'outcome', 'committed_at_ms', 'event_id' },
  test = function(r) return r.dispatched_at_ms == nil and r.flow_id ~= nil and differs(r.outcome, 'resumable') end,
  group = function(r) return '' end,
  order = function(r) return int(r.committed_at_ms) .. int(r.event_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_completion_event.indexes[#T.ff_completion_event.indexes + 1] = I.i0G
I.i0H = { -- suspended of ff_suspension_current
  code = 'i0H', t = T.ff_suspension_current,
  grouped = true, primary = false,
  columns = { 'closed_at_ms', 'partition_key', 'suspended_at_ms', 'execution_id' },
  test = function(r) return r.closed_at_ms == nil end,
  group = function(r) return int(r.partition_key) end,
  order = function(r) return int(r.suspended_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_suspension_current.indexes[#T.ff_suspension_current.indexes + 1] = I.i0H
I.i0I = { -- suspension_timeout of ff_suspension_current
  code = 'i0I', t = T.ff_suspension_current,
  grouped = false, primary = false,
  columns = { 'closed_at_ms', 'timeout_at_ms', 'execution_id' },
  test = function(r) return r.closed_at_ms == nil and r.timeout_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.timeout_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_suspension_current.indexes[#T.ff_suspension_current.indexes + 1] = I.i0I
I.i0J = { -- waitpoints_of of ff_waitpoint_pending
  code = 'i0J', t = T.ff_waitpoint_pending,
  grouped = true, primary = false,
  columns = { 'partition_key', 'execution_id', 'waitpoint_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return uuid(r.waitpoint_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_waitpoint_pending.indexes[#T.ff_waitpoint_pending.indexes + 1] = I.i0J
I.i0K = { -- waitpoint_expiry of ff_waitpoint_pending
  code = 'i0K', t = T.ff_waitpoint_pending,
  grouped = false, primary = false,
  columns = { 'state', 'expires_at_ms', 'waitpoint_id' },
  test = function(r) return same(r.state, 'pending') and r.expires_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. uuid(r.waitpoint_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_waitpoint_pending.indexes[#T.ff_waitpoint_pending.indexes + 1] = I.i0K
I.i0L = { -- open_waitpoints of ff_waitpoint_pending
  code = 'i0L', t = T.ff_waitpoint_pending,
  grouped = false, primary = false,
  columns = { 'state', 'created_at_ms', 'waitpoint_id' },
  test = function(r) return (r.state == 'pending' or r.state == 'active') end,
  group = function(r) return '' end,
  order = function(r) return int(r.created_at_ms) .. uuid(r.waitpoint_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_waitpoint_pending.indexes[#T.ff_waitpoint_pending.indexes + 1] = I.i0L
I.i0M = { -- signals_of of ff_signal
  code = 'i0M', t = T.ff_signal,
  grouped = true, primary = false,
  columns = { 'partition_key', 'execution_id', 'accepted_at_ms', 'signal_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return int(r.accepted_at_ms) .. uuid(r.signal_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_signal.indexes[#T.ff_signal.indexes + 1] = I.i0M
I.i0N = { -- signal_dedup_expiry of ff_signal_dedup
  code = 'i0N', t = T.ff_signal_dedup,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'waitpoint_id', 'idempotency_key' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. uuid(r.waitpoint_id) .. word(r.idempotency_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 24) + 1 return sub(member, at + 0) end,
}
T.ff_signal_dedup.indexes[#T.ff_signal_dedup.indexes + 1] = I.i0N
I.i0O = { -- suspend_dedup_expiry of ff_suspend_dedup
  code = 'i0O', t = T.ff_suspend_dedup,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'idempotency_key' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. word(r.idempotency_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 8) + 1 return sub(member, at + 0) end,
}
T.ff_suspend_dedup.indexes[#T.ff_suspend_dedup.indexes + 1] = I.i0O
I.i0P = { -- signal_dedup_of of ff_signal_dedup
  code = 'i0P', t = T.ff_signal_dedup,
  grouped = true, primary = false,
  columns = { 'partition_key', 'execution_id', 'waitpoint_id', 'idempotency_key' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return uuid(r.waitpoint_id) .. word(r.idempotency_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 16) + 1 return sub(member, at + 0) end,
}
T.ff_signal_dedup.indexes[#T.ff_signal_dedup.indexes + 1] = I.i0P
I.i0Q = { -- suspend_dedup_of of ff_suspend_dedup
  code = 'i0Q', t = T.ff_suspend_dedup,
  grouped = true, primary = false,
  columns = { 'partition_key', 'execution_id', 'idempotency_key' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return word(r.idempotency_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 0) + 1 return sub(member, at + 0) end,
}
T.ff_suspend_dedup.indexes[#T.ff_suspend_dedup.indexes + 1] = I.i0Q
I.i0R = { -- hmac_keys of ff_waitpoint_hmac
  code = 'i0R', t = T.ff_waitpoint_hmac,
  grouped = false, primary = true,
  columns = { 'kid' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.kid) end,
  key_of = function(member) return member end,
}
I.i0S = { -- budgets of ff_budget_policy
  code = 'i0S', t = T.ff_budget_policy,
  grouped = false, primary = true,
  columns = { 'budget_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return uuid(r.budget_id) end,
  key_of = function(member) return member end,
}
I.i0T = { -- budget_resets of ff_budget_policy
  code = 'i0T', t = T.ff_budget_policy,
  grouped = false, primary = false,
  columns = { 'next_reset_at_ms', 'budget_id' },
  test = function(r) return r.next_reset_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.next_reset_at_ms) .. uuid(r.budget_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_budget_policy.indexes[#T.ff_budget_policy.indexes + 1] = I.i0T
I.i0U = { -- usage_of of ff_budget_usage
  code = 'i0U', t = T.ff_budget_usage,
  grouped = true, primary = true,
  columns = { 'budget_id', 'dimensions_key' },
  test = function(r) return true end,
  group = function(r) return uuid(r.budget_id) end,
  order = function(r) return word(r.dimensions_key) end,
  key_of = function(member) return member end,
}
I.i0V = { -- usage_dedup_expiry of ff_budget_usage_dedup
  code = 'i0V', t = T.ff_budget_usage_dedup,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'budget_id', 'dedup_key' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. uuid(r.budget_id) .. word(r.dedup_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 24) + 1 return sub(member, at + 0) end,
}
T.ff_budget_usage_dedup.indexes[#T.ff_budget_usage_dedup.indexes + 1] = I.i0V
I.i0W = { -- ledger_of of ff_budget_usage_by_exec
  code = 'i0W', t = T.ff_budget_usage_by_exec,
  grouped = true, primary = true,
  columns = { 'partition_key', 'execution_id', 'dimensions_key', 'budget_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return word(r.dimensions_key) .. uuid(r.budget_id) end,
  key_of = function(member) return member end,
}
I.i0X = { -- ledger_of_budget of ff_budget_usage_by_exec
  code = 'i0X', t = T.ff_budget_usage_by_exec,
  grouped = true, primary = false,
  columns = { 'budget_id', 'partition_key', 'execution_id', 'dimensions_key' },
  test = function(r) return true end,
  group = function(r) return uuid(r.budget_id) end,
  order = function(r) return int(r.partition_key) .. uuid(r.execution_id) .. word(r.dimensions_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 24) + 1 return sub(member, at + 0) end,
}
T.ff_budget_usage_by_exec.indexes[#T.ff_budget_usage_by_exec.indexes + 1] = I.i0X
I.i0Y = { -- quotas of ff_quota_policy
  code = 'i0Y', t = T.ff_quota_policy,
  grouped = false, primary = true,
  columns = { 'quota_policy_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return uuid(r.quota_policy_id) end,
  key_of = function(member) return member end,
}
I.i0Z = { -- quota_window of ff_quota_window
  code = 'i0Z', t = T.ff_quota_window,
  grouped = true, primary = true,
  columns = { 'quota_policy_id', 'dimension', 'admitted_at_ms', 'execution_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.quota_policy_id) .. word(r.dimension) end,
  order = function(r) return int(r.admitted_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) return member end,
}
I.i10 = { -- quota_entries of ff_quota_window
  code = 'i10', t = T.ff_quota_window,
  grouped = true, primary = true,
  columns = { 'quota_policy_id', 'dimension', 'admitted_at_ms', 'execution_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.quota_policy_id) end,
  order = function(r) return word(r.dimension) .. int(r.admitted_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) return member end,
}
I.i11 = { -- quota_admitted of ff_quota_admitted
  code = 'i11', t = T.ff_quota_admitted,
  grouped = true, primary = true,
  columns = { 'quota_policy_id', 'execution_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.quota_policy_id) end,
  order = function(r) return word(r.execution_id) end,
  key_of = function(member) return member end,
}
I.i12 = { -- limit_scopes of ff_limit_scope
  code = 'i12', t = T.ff_limit_scope,
  grouped = false, primary = true,
  columns = { 'scope_type', 'scope_id', 'kind', 'limit_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.scope_type) .. word(r.scope_id) .. word(r.kind) .. uuid(r.limit_id) end,
  key_of = function(member) return member end,
}
I.i13 = { -- lane_gates of ff_lane_gate
  code = 'i13', t = T.ff_lane_gate,
  grouped = true, primary = true,
  columns = { 'lane_id', 'namespace', 'gate' },
  test = function(r) return true end,
  group = function(r) return word(r.lane_id) .. word(r.namespace) end,
  order = function(r) return word(r.gate) end,
  key_of = function(member) return member end,
}
I.i14 = { -- all_gates of ff_lane_gate
  code = 'i14', t = T.ff_lane_gate,
  grouped = false, primary = true,
  columns = { 'lane_id', 'namespace', 'gate' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.lane_id) .. word(r.namespace) .. word(r.gate) end,
  key_of = function(member) return member end,
}
I.i15 = { -- gates_of_lane of ff_lane_gate
  code = 'i15', t = T.ff_lane_gate,
  grouped = true, primary = true,
  columns = { 'lane_id', 'namespace', 'gate' },
  test = function(r) return true end,
  group = function(r) return word(r.lane_id) end,
  order = function(r) return word(r.namespace) .. word(r.gate) end,
  key_of = function(member) return member end,
}
I.i16 = { -- schedules of ff_schedule
  code = 'i16', t = T.ff_schedule,
  grouped = true, primary = true,
  columns = { 'namespace', 'name' },
  test = function(r) return true end,
  group = function(r) return word(r.namespace) end,
  order = function(r) return word(r.name) end,
  key_of = function(member) return member end,
}
I.i17 = { -- all_schedules of ff_schedule
  code = 'i17', t = T.ff_schedule,
  grouped = false, primary = true,
  columns = { 'namespace', 'name' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.namespace) .. word(r.name) end,
  key_of = function(member) return member end,
}
I.i18 = { -- tasks of ff_task
  code = 'i18', t = T.ff_task,
  grouped = true, primary = true,
  columns = { 'namespace', 'name' },
  test = function(r) return true end,
  group = function(r) return word(r.namespace) end,
  order = function(r) return word(r.name) end,
  key_of = function(member) return member end,
}
I.i19 = { -- bulk_jobs of ff_bulk_job
  code = 'i19', t = T.ff_bulk_job,
  grouped = false, primary = false,
  columns = { 'created_at_ms', 'job_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.created_at_ms) .. uuid(r.job_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_bulk_job.indexes[#T.ff_bulk_job.indexes + 1] = I.i19
I.i1a = { -- bulk_running of ff_bulk_job
  code = 'i1a', t = T.ff_bulk_job,
  grouped = false, primary = false,
  columns = { 'state', 'updated_at_ms', 'job_id' },
  test = function(r) return same(r.state, 'running') end,
  group = function(r) return '' end,
  order = function(r) return int(r.updated_at_ms) .. uuid(r.job_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_bulk_job.indexes[#T.ff_bulk_job.indexes + 1] = I.i1a
I.i1b = { -- bulk_ended of ff_bulk_job
  code = 'i1b', t = T.ff_bulk_job,
  grouped = false, primary = false,
  columns = { 'ended_at_ms', 'job_id' },
  test = function(r) return r.ended_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.ended_at_ms) .. uuid(r.job_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_bulk_job.indexes[#T.ff_bulk_job.indexes + 1] = I.i1b
I.i1c = { -- api_tokens of ff_api_token
  code = 'i1c', t = T.ff_api_token,
  grouped = false, primary = true,
  columns = { 'token_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return uuid(r.token_id) end,
  key_of = function(member) return member end,
}
I.i1d = { -- live_tokens of ff_api_token
  code = 'i1d', t = T.ff_api_token,
  grouped = false, primary = false,
  columns = { 'revoked_at_ms', 'token_id' },
  test = function(r) return r.revoked_at_ms == nil end,
  group = function(r) return '' end,
  order = function(r) return uuid(r.token_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_api_token.indexes[#T.ff_api_token.indexes + 1] = I.i1d
I.i1e = { -- revoked_tokens of ff_api_token
  code = 'i1e', t = T.ff_api_token,
  grouped = false, primary = false,
  columns = { 'revoked_at_ms', 'token_id' },
  test = function(r) return r.revoked_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.revoked_at_ms) .. uuid(r.token_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_api_token.indexes[#T.ff_api_token.indexes + 1] = I.i1e
I.i1f = { -- steps of ff_step
  code = 'i1f', t = T.ff_step,
  grouped = true, primary = true,
  columns = { 'partition_key', 'execution_id', 'position' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return int(r.position) end,
  key_of = function(member) return member end,
}
I.i1g = { -- frames of ff_stream_frame
  code = 'i1g', t = T.ff_stream_frame,
  grouped = true, primary = true,
  columns = { 'partition_key', 'execution_id', 'attempt_index', 'ts_ms', 'seq' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) .. int(r.attempt_index) end,
  order = function(r) return int(r.ts_ms) .. int(r.seq) end,
  key_of = function(member) return member end,
}
I.i1h = { -- kept_frames of ff_stream_frame
  code = 'i1h', t = T.ff_stream_frame,
  grouped = true, primary = true,
  columns = { 'mode', 'partition_key', 'execution_id', 'attempt_index', 'ts_ms', 'seq' },
  test = function(r) return differs(r.mode, 'best_effort') end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) .. int(r.attempt_index) end,
  order = function(r) return int(r.ts_ms) .. int(r.seq) end,
  key_of = function(member) return member end,
}
I.i1i = { -- durable_frames of ff_stream_frame
  code = 'i1i', t = T.ff_stream_frame,
  grouped = true, primary = true,
  columns = { 'mode', 'partition_key', 'execution_id', 'attempt_index', 'ts_ms', 'seq' },
  test = function(r) return same(r.mode, 'durable') end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) .. int(r.attempt_index) end,
  order = function(r) return int(r.ts_ms) .. int(r.seq) end,
  key_of = function(member) return member end,
}
I.i1j = { -- passing_frames of ff_stream_frame
  code = 'i1j', t = T.ff_stream_frame,
  grouped = true, primary = false,
  columns = { 'mode', 'partition_key', 'execution_id', 'attempt_index', 'mode_number' },
  test = function(r) return differs(r.mode, 'durable') end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) .. int(r.attempt_index) .. word(r.mode) end,
  order = function(r) return int(r.mode_number) end,
  key_of = function(member) local at = 1 return sub(member, at + 8) end,
}
T.ff_stream_frame.indexes[#T.ff_stream_frame.indexes + 1] = I.i1j
I.i1k = { -- frames_by_caller of ff_stream_frame
  code = 'i1k', t = T.ff_stream_frame,
  grouped = true, primary = false,
  columns = { 'client_seq', 'partition_key', 'execution_id', 'attempt_index' },
  test = function(r) return r.client_seq ~= nil end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) .. int(r.attempt_index) end,
  order = function(r) return int(r.client_seq) end,
  key_of = function(member) local at = 1 return sub(member, at + 8) end,
}
T.ff_stream_frame.indexes[#T.ff_stream_frame.indexes + 1] = I.i1k
I.i1l = { -- expiring_frames of ff_stream_frame
  code = 'i1l', t = T.ff_stream_frame,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'execution_id', 'attempt_index', 'ts_ms', 'seq' },
  test = function(r) return r.expires_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. uuid(r.execution_id) .. int(r.attempt_index) .. int(r.ts_ms) .. int(r.seq) end,
  key_of = function(member) local at = 1 return sub(member, at + 48) end,
}
T.ff_stream_frame.indexes[#T.ff_stream_frame.indexes + 1] = I.i1l
I.i1m = { -- signal_events_of of ff_signal_event
  code = 'i1m', t = T.ff_signal_event,
  grouped = true, primary = false,
  columns = { 'execution_id', 'event_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.execution_id) end,
  order = function(r) return int(r.event_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 8) end,
}
T.ff_signal_event.indexes[#T.ff_signal_event.indexes + 1] = I.i1m
I.i1n = { -- lease_events_of of ff_lease_event
  code = 'i1n', t = T.ff_lease_event,
  grouped = true, primary = false,
  columns = { 'execution_id', 'event_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.execution_id) end,
  order = function(r) return int(r.event_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 8) end,
}
T.ff_lease_event.indexes[#T.ff_lease_event.indexes + 1] = I.i1n
I.i1o = { -- completion_events_of of ff_completion_event
  code = 'i1o', t = T.ff_completion_event,
  grouped = true, primary = false,
  columns = { 'execution_id', 'event_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.execution_id) end,
  order = function(r) return int(r.event_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 8) end,
}
T.ff_completion_event.indexes[#T.ff_completion_event.indexes + 1] = I.i1o
I.i1p = { -- operator_events_of of ff_operator_event
  code = 'i1p', t = T.ff_operator_event,
  grouped = true, primary = false,
  columns = { 'execution_id', 'event_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.execution_id) end,
  order = function(r) return int(r.event_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 8) end,
}
T.ff_operator_event.indexes[#T.ff_operator_event.indexes + 1] = I.i1p
I.i04 = { -- ready_namespaces of ff_exec_core
  code = 'i04', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'lane_id', 'namespace' },
  test = function(r) return same(r.lifecycle_phase, 'runnable') and same(r.eligibility_state, 'eligible_now') end,
  group = function(r) return word(r.lane_id) end,
  order = function(r) return word(r.namespace) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 0) + 1 return sub(member, at + 0) end,
}
I.i04.base = I.i03
I.i05 = { -- ready_gates of ff_exec_core
  code = 'i05', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'lane_id', 'namespace', 'gate' },
  test = function(r) return same(r.lifecycle_phase, 'runnable') and same(r.eligibility_state, 'eligible_now') end,
  group = function(r) return word(r.lane_id) .. word(r.namespace) end,
  order = function(r) return word(r.gate) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 0) + 1 return sub(member, at + 0) end,
}
I.i05.base = I.i03
