T.ff_exec_core = {
  code = 'tkiw', indexes = {},
  codes = { partition_key = 'WYb', execution_id = '6Pr', flow_id = 'vkT', lane_id = 'tbW', namespace = 'CG9', instance_tag = '9zg', execution_kind = 'RdB', creator_identity = 's6Y', idempotency_key = 'zaU', payload_encoding = 'LVa', required_capabilities = 'ZST', budget_ids = '3cE', quota_policy_id = 's1f', gate = 'SZK', blocked_on = 'o9y', lifecycle_phase = 'ktU', ownership_state = 'mvo', eligibility_state = 'sBF', blocking_reason = 'nDk', blocking_detail = 's1n', terminal_outcome = 'CrN', attempt_state = '0m5', public_state = 'dV2', priority = 'FLD', created_at_ms = 'yVc', started_at_ms = 'xXw', terminal_at_ms = 'Xv6', last_transition_at = 'B1t', last_mutation_at = 'tRj', delay_until_ms = 'Nsm', deadline_at_ms = 'eUt', deadline_origin = 'qPt', attempt_index = 'oxR', total_attempt_count = 'Apz', retry_count = 'R5i', replay_count = 'qG2', lease_reclaim_count = 'jTn', max_reclaim_count = 'k2i', attempt_timeout_ms = 'mMW', attempt_timeout_at_ms = '7gd', attempt_timeout_remaining_ms = 'mmV', retention_ttl_ms = 'psg', failed_retention_ttl_ms = 'VAH', retain_until_ms = 'Fjr', current_attempt_id = 'vdb', current_lease_id = 'UlQ', lease_epoch = 'BCm', version = 'zQs', current_worker_id = 'wDg', current_worker_instance_id = '1Qq', lease_acquired_at = 'w09', lease_expires_at_ms = 'nWb', lease_last_renewed_at = '5lZ', lease_renewal_deadline = '6dF', lease_expired_at = 'Dom', expired_epoch = 'QNh', interrupt_cause = 'zbc', closing_epoch = 'NdX', closing_attempt_index = 'sl4', pending_retry_reason = 'fwR', pending_replay_reason = 'em6', pending_replay_requested_by = 'JlX', pending_previous_attempt_index = 'rK7', pending_attempt_policy = 'bLi', reserved_for = 'una', reserved_until_ms = '2Tv', failure_reason = 'WVp', last_failure_message = 'gZ1', cancellation_reason = 'a2U', cancelled_by = 'NdN', progress_pct = '9Vj', progress_message = 'Ldp', progress_updated_at = 'XiI', last_capability_mismatch_at = 'gjo', current_suspension_id = 'oYn', current_waitpoint_id = 'TKf', last_hmac_validation_failed_at = '0RN', result_encoding = 'mPh', tags = 'qOK', raw_fields = 'Wpu', policy = 'Yji', payload = 'tyj', result = 'xVR' },
  names = { ['WYb'] = 'partition_key', ['6Pr'] = 'execution_id', ['vkT'] = 'flow_id', ['tbW'] = 'lane_id', ['CG9'] = 'namespace', ['9zg'] = 'instance_tag', ['RdB'] = 'execution_kind', ['s6Y'] = 'creator_identity', ['zaU'] = 'idempotency_key', ['LVa'] = 'payload_encoding', ['ZST'] = 'required_capabilities', ['3cE'] = 'budget_ids', ['s1f'] = 'quota_policy_id', ['SZK'] = 'gate', ['o9y'] = 'blocked_on', ['ktU'] = 'lifecycle_phase', ['mvo'] = 'ownership_state', ['sBF'] = 'eligibility_state', ['nDk'] = 'blocking_reason', ['s1n'] = 'blocking_detail', ['CrN'] = 'terminal_outcome', ['0m5'] = 'attempt_state', ['dV2'] = 'public_state', ['FLD'] = 'priority', ['yVc'] = 'created_at_ms', ['xXw'] = 'started_at_ms', ['Xv6'] = 'terminal_at_ms', ['B1t'] = 'last_transition_at', ['tRj'] = 'last_mutation_at', ['Nsm'] = 'delay_until_ms', ['eUt'] = 'deadline_at_ms', ['qPt'] = 'deadline_origin', ['oxR'] = 'attempt_index', ['Apz'] = 'total_attempt_count', ['R5i'] = 'retry_count', ['qG2'] = 'replay_count', ['jTn'] = 'lease_reclaim_count', ['k2i'] = 'max_reclaim_count', ['mMW'] = 'attempt_timeout_ms', ['7gd'] = 'attempt_timeout_at_ms', ['mmV'] = 'attempt_timeout_remaining_ms', ['psg'] = 'retention_ttl_ms', ['VAH'] = 'failed_retention_ttl_ms', ['Fjr'] = 'retain_until_ms', ['vdb'] = 'current_attempt_id', ['UlQ'] = 'current_lease_id', ['BCm'] = 'lease_epoch', ['zQs'] = 'version', ['wDg'] = 'current_worker_id', ['1Qq'] = 'current_worker_instance_id', ['w09'] = 'lease_acquired_at', ['nWb'] = 'lease_expires_at_ms', ['5lZ'] = 'lease_last_renewed_at', ['6dF'] = 'lease_renewal_deadline', ['Dom'] = 'lease_expired_at', ['QNh'] = 'expired_epoch', ['zbc'] = 'interrupt_cause', ['NdX'] = 'closing_epoch', ['sl4'] = 'closing_attempt_index', ['fwR'] = 'pending_retry_reason', ['em6'] = 'pending_replay_reason', ['JlX'] = 'pending_replay_requested_by', ['rK7'] = 'pending_previous_attempt_index', ['bLi'] = 'pending_attempt_policy', ['una'] = 'reserved_for', ['2Tv'] = 'reserved_until_ms', ['WVp'] = 'failure_reason', ['gZ1'] = 'last_failure_message', ['a2U'] = 'cancellation_reason', ['NdN'] = 'cancelled_by', ['9Vj'] = 'progress_pct', ['Ldp'] = 'progress_message', ['XiI'] = 'progress_updated_at', ['gjo'] = 'last_capability_mismatch_at', ['oYn'] = 'current_suspension_id', ['TKf'] = 'current_waitpoint_id', ['0RN'] = 'last_hmac_validation_failed_at', ['mPh'] = 'result_encoding', ['qOK'] = 'tags', ['Wpu'] = 'raw_fields', ['Yji'] = 'policy', ['tyj'] = 'payload', ['xVR'] = 'result' },
  default_values = { namespace = 'default', execution_kind = '', creator_identity = '', required_capabilities = '[]', budget_ids = '[]', gate = '', ownership_state = 'unowned', blocking_reason = 'none', blocking_detail = '', terminal_outcome = 'none', priority = '0', last_transition_at = '0', last_mutation_at = '0', attempt_index = '0', total_attempt_count = '0', retry_count = '0', replay_count = '0', lease_reclaim_count = '0', lease_epoch = '0', version = '0', tags = '{}', raw_fields = '{}' },
  kept = { partition_key = true, execution_id = true },
  small = { 'partition_key', 'execution_id', 'flow_id', 'lane_id', 'namespace', 'instance_tag', 'execution_kind', 'creator_identity', 'idempotency_key', 'payload_encoding', 'required_capabilities', 'budget_ids', 'quota_policy_id', 'gate', 'blocked_on', 'lifecycle_phase', 'ownership_state', 'eligibility_state', 'blocking_reason', 'blocking_detail', 'terminal_outcome', 'attempt_state', 'public_state', 'priority', 'created_at_ms', 'started_at_ms', 'terminal_at_ms', 'last_transition_at', 'last_mutation_at', 'delay_until_ms', 'deadline_at_ms', 'deadline_origin', 'attempt_index', 'total_attempt_count', 'retry_count', 'replay_count', 'lease_reclaim_count', 'max_reclaim_count', 'attempt_timeout_ms', 'attempt_timeout_at_ms', 'attempt_timeout_remaining_ms', 'retention_ttl_ms', 'failed_retention_ttl_ms', 'retain_until_ms', 'current_attempt_id', 'current_lease_id', 'lease_epoch', 'version', 'current_worker_id', 'current_worker_instance_id', 'lease_acquired_at', 'lease_expires_at_ms', 'lease_last_renewed_at', 'lease_renewal_deadline', 'lease_expired_at', 'expired_epoch', 'interrupt_cause', 'closing_epoch', 'closing_attempt_index', 'pending_retry_reason', 'pending_replay_reason', 'pending_replay_requested_by', 'pending_previous_attempt_index', 'pending_attempt_policy', 'reserved_for', 'reserved_until_ms', 'failure_reason', 'last_failure_message', 'cancellation_reason', 'cancelled_by', 'progress_pct', 'progress_message', 'progress_updated_at', 'last_capability_mismatch_at', 'current_suspension_id', 'current_waitpoint_id', 'last_hmac_validation_failed_at', 'result_encoding', 'tags', 'raw_fields', 'policy' },
  large = { payload = true, result = true },
}
T.ff_exec_core.defaults = { __index = T.ff_exec_core.default_values }
T.ff_attempt = {
  code = 'tjfC', indexes = {},
  codes = { partition_key = 'WYb', execution_id = '6Pr', attempt_index = 'oxR', attempt_id = 'BR4', attempt_type = 'dEH', attempt_state = '0m5', worker_id = 'wDj', worker_instance_id = 'qqT', lease_id = 'wg5', lease_epoch = 'BCm', lease_expires_at_ms = 'nWb', created_at_ms = 'yVc', started_at_ms = 'xXw', resumed_at_ms = 'apJ', suspended_at_ms = 'Zcl', suspension_id = 'OA3', terminal_at_ms = 'Xv6', outcome = 'EtN', failure_reason = 'WVp', failure_category = 'Ekd', retry_reason = 'VWA', replay_reason = 'zv8', replay_requested_by = '5Dt', reclaim_reason = 'RDe', previous_attempt_index = 'DFA', replayed_from_attempt_index = 'azZ', attempt_timeout_at_ms = '7gd', attempt_timeout_remaining_ms = 'mmV', usage = 'c0Z', policy = 'Yji', raw_fields = 'Wpu' },
  names = { ['WYb'] = 'partition_key', ['6Pr'] = 'execution_id', ['oxR'] = 'attempt_index', ['BR4'] = 'attempt_id', ['dEH'] = 'attempt_type', ['0m5'] = 'attempt_state', ['wDj'] = 'worker_id', ['qqT'] = 'worker_instance_id', ['wg5'] = 'lease_id', ['BCm'] = 'lease_epoch', ['nWb'] = 'lease_expires_at_ms', ['yVc'] = 'created_at_ms', ['xXw'] = 'started_at_ms', ['apJ'] = 'resumed_at_ms', ['Zcl'] = 'suspended_at_ms', ['OA3'] = 'suspension_id', ['Xv6'] = 'terminal_at_ms', ['EtN'] = 'outcome', ['WVp'] = 'failure_reason', ['Ekd'] = 'failure_category', ['VWA'] = 'retry_reason', ['zv8'] = 'replay_reason', ['5Dt'] = 'replay_requested_by', ['RDe'] = 'reclaim_reason', ['DFA'] = 'previous_attempt_index', ['azZ'] = 'replayed_from_attempt_index', ['7gd'] = 'attempt_timeout_at_ms', ['mmV'] = 'attempt_timeout_remaining_ms', ['c0Z'] = 'usage', ['Yji'] = 'policy', ['Wpu'] = 'raw_fields' },
  default_values = { attempt_type = 'initial', attempt_state = 'created', lease_epoch = '0', created_at_ms = '0', usage = '{"last_usage_report_seq":0}', raw_fields = '{}' },
  kept = { partition_key = true, execution_id = true, attempt_index = true },
  small = { 'partition_key', 'execution_id', 'attempt_index', 'attempt_id', 'attempt_type', 'attempt_state', 'worker_id', 'worker_instance_id', 'lease_id', 'lease_epoch', 'lease_expires_at_ms', 'created_at_ms', 'started_at_ms', 'resumed_at_ms', 'suspended_at_ms', 'suspension_id', 'terminal_at_ms', 'outcome', 'failure_reason', 'failure_category', 'retry_reason', 'replay_reason', 'replay_requested_by', 'reclaim_reason', 'previous_attempt_index', 'replayed_from_attempt_index', 'attempt_timeout_at_ms', 'attempt_timeout_remaining_ms', 'usage', 'policy', 'raw_fields' },
}
T.ff_attempt.defaults = { __index = T.ff_attempt.default_values }
T.ff_stream_meta = {
  code = 'tKHp', indexes = {},
  codes = { partition_key = 'WYb', execution_id = '6Pr', attempt_index = 'oxR', created_at_ms = 'yVc', frame_count = 'UCd', total_bytes = 'y3W', last_ts_ms = 'sTh', last_seq = 'PJ8', has_durable_frame = 'vKq', durable_count = 'zq7', durable_trimmed = 'Nq3', summary_count = '67l', summary_trimmed = 'RYw', live_count = 'xR8', live_trimmed = 'nV6', ema_rate_hz = '2Jw', last_append_ts_ms = '9q6', maxlen_applied_last = 'E3F', version = 'zQs' },
  names = { ['WYb'] = 'partition_key', ['6Pr'] = 'execution_id', ['oxR'] = 'attempt_index', ['yVc'] = 'created_at_ms', ['UCd'] = 'frame_count', ['y3W'] = 'total_bytes', ['sTh'] = 'last_ts_ms', ['PJ8'] = 'last_seq', ['vKq'] = 'has_durable_frame', ['zq7'] = 'durable_count', ['Nq3'] = 'durable_trimmed', ['67l'] = 'summary_count', ['RYw'] = 'summary_trimmed', ['xR8'] = 'live_count', ['nV6'] = 'live_trimmed', ['2Jw'] = 'ema_rate_hz', ['9q6'] = 'last_append_ts_ms', ['E3F'] = 'maxlen_applied_last', ['zQs'] = 'version' },
  default_values = { frame_count = '0', total_bytes = '0', last_ts_ms = '0', last_seq = '0', has_durable_frame = '0', durable_count = '0', durable_trimmed = '0', summary_count = '0', summary_trimmed = '0', live_count = '0', live_trimmed = '0', version = '0' },
  kept = { partition_key = true, execution_id = true, attempt_index = true },
  small = { 'partition_key', 'execution_id', 'attempt_index', 'created_at_ms', 'frame_count', 'total_bytes', 'last_ts_ms', 'last_seq', 'has_durable_frame', 'durable_count', 'durable_trimmed', 'summary_count', 'summary_trimmed', 'live_count', 'live_trimmed', 'ema_rate_hz', 'last_append_ts_ms', 'maxlen_applied_last', 'version' },
}
T.ff_stream_meta.defaults = { __index = T.ff_stream_meta.default_values }
T.ff_stream_frame = {
  code = 'twAd', indexes = {},
  codes = { partition_key = 'WYb', execution_id = '6Pr', attempt_index = 'oxR', ts_ms = 'n7i', seq = '59c', mode = 'pdl', number = 'IaX', mode_number = 'aft', client_seq = 'dd1', expires_at_ms = 'tP9', created_at_ms = 'yVc', fields = 'oU2' },
  names = { ['WYb'] = 'partition_key', ['6Pr'] = 'execution_id', ['oxR'] = 'attempt_index', ['n7i'] = 'ts_ms', ['59c'] = 'seq', ['pdl'] = 'mode', ['IaX'] = 'number', ['aft'] = 'mode_number', ['dd1'] = 'client_seq', ['tP9'] = 'expires_at_ms', ['yVc'] = 'created_at_ms', ['oU2'] = 'fields' },
  default_values = { mode = 'durable', fields = '{}' },
  kept = { partition_key = true, execution_id = true, attempt_index = true, ts_ms = true, seq = true },
  small = { 'partition_key', 'execution_id', 'attempt_index', 'ts_ms', 'seq', 'mode', 'number', 'mode_number', 'client_seq', 'expires_at_ms', 'created_at_ms', 'fields' },
}
T.ff_stream_frame.defaults = { __index = T.ff_stream_frame.default_values }
T.ff_stream_summary = {
  code = 'tqpA', indexes = {},
  codes = { partition_key = 'WYb', execution_id = '6Pr', attempt_index = 'oxR', document_json = 'Gc5', version = 'zQs', patch_kind = '1zO', last_updated_ms = 'KE5', first_applied_ms = 'jPT' },
  names = { ['WYb'] = 'partition_key', ['6Pr'] = 'execution_id', ['oxR'] = 'attempt_index', ['Gc5'] = 'document_json', ['zQs'] = 'version', ['1zO'] = 'patch_kind', ['KE5'] = 'last_updated_ms', ['jPT'] = 'first_applied_ms' },
  default_values = { document_json = '{}', version = '1', patch_kind = 'json-merge-patch' },
  kept = { partition_key = true, execution_id = true, attempt_index = true },
  small = { 'partition_key', 'execution_id', 'attempt_index', 'document_json', 'version', 'patch_kind', 'last_updated_ms', 'first_applied_ms' },
}
T.ff_stream_summary.defaults = { __index = T.ff_stream_summary.default_values }
T.ff_step = {
  code = 'tCvp', indexes = {},
  codes = { partition_key = 'WYb', execution_id = '6Pr', position = 'RO1', name = 'K0W', kind = 'jRq', attempt_index = 'oxR', recorded_at_ms = 'lUs', value = 'wMh' },
  names = { ['WYb'] = 'partition_key', ['6Pr'] = 'execution_id', ['RO1'] = 'position', ['K0W'] = 'name', ['jRq'] = 'kind', ['oxR'] = 'attempt_index', ['lUs'] = 'recorded_at_ms', ['wMh'] = 'value' },
  default_values = { kind = 'step', attempt_index = '0' },
  kept = { partition_key = true, execution_id = true, position = true },
  small = { 'partition_key', 'execution_id', 'position', 'name', 'kind', 'attempt_index', 'recorded_at_ms', 'value' },
}
T.ff_step.defaults = { __index = T.ff_step.default_values }
T.ff_claim_grant = {
  code = 'tEqP', indexes = {},
  codes = { partition_key = 'WYb', execution_id = '6Pr', grant_id = 'JDP', kind = 'jRq', worker_id = 'wDj', worker_instance_id = 'qqT', lane_id = 'tbW', capability_hash = '1EJ', worker_capabilities = '8vi', route_snapshot_json = 'UkQ', admission_summary = 'vjk', grant_ttl_ms = 'y9J', issued_at_ms = 'jBK', expires_at_ms = 'tP9' },
  names = { ['WYb'] = 'partition_key', ['6Pr'] = 'execution_id', ['JDP'] = 'grant_id', ['jRq'] = 'kind', ['wDj'] = 'worker_id', ['qqT'] = 'worker_instance_id', ['tbW'] = 'lane_id', ['1EJ'] = 'capability_hash', ['8vi'] = 'worker_capabilities', ['UkQ'] = 'route_snapshot_json', ['vjk'] = 'admission_summary', ['y9J'] = 'grant_ttl_ms', ['jBK'] = 'issued_at_ms', ['tP9'] = 'expires_at_ms' },
  default_values = { worker_capabilities = '[]' },
  kept = { partition_key = true, execution_id = true },
  small = { 'partition_key', 'execution_id', 'grant_id', 'kind', 'worker_id', 'worker_instance_id', 'lane_id', 'capability_hash', 'worker_capabilities', 'route_snapshot_json', 'admission_summary', 'grant_ttl_ms', 'issued_at_ms', 'expires_at_ms' },
}
T.ff_claim_grant.defaults = { __index = T.ff_claim_grant.default_values }
T.ff_lane_registry = {
  code = 't21I', indexes = {},
  codes = { lane_id = 'tbW', registered_at_ms = '09o', registered_by = 'Rr4', state = 'X27', updated_at_ms = '23j' },
  names = { ['tbW'] = 'lane_id', ['09o'] = 'registered_at_ms', ['Rr4'] = 'registered_by', ['X27'] = 'state', ['23j'] = 'updated_at_ms' },
  default_values = { state = 'active', updated_at_ms = '0' },
  kept = { lane_id = true },
  small = { 'lane_id', 'registered_at_ms', 'registered_by', 'state', 'updated_at_ms' },
}
T.ff_lane_registry.defaults = { __index = T.ff_lane_registry.default_values }
T.ff_idempotency = {
  code = 'tuLd', indexes = {},
  codes = { namespace = 'CG9', idempotency_key = 'zaU', partition_key = 'WYb', execution_id = '6Pr', expires_at_ms = 'tP9', digest = 'slg' },
  names = { ['CG9'] = 'namespace', ['zaU'] = 'idempotency_key', ['WYb'] = 'partition_key', ['6Pr'] = 'execution_id', ['tP9'] = 'expires_at_ms', ['slg'] = 'digest' },
  default_values = {  },
  kept = { namespace = true, idempotency_key = true },
  small = { 'namespace', 'idempotency_key', 'partition_key', 'execution_id', 'expires_at_ms', 'digest' },
}
T.ff_idempotency.defaults = { __index = T.ff_idempotency.default_values }
T.ff_worker_registry = {
  code = 'trAu', indexes = {},
  codes = { namespace = 'CG9', worker_instance_id = 'qqT', worker_id = 'wDj', lanes = 'zBw', capabilities = 'h2K', last_heartbeat_ms = 'uMh', liveness_ttl_ms = 'rZT', expires_at_ms = 'tP9', registered_at_ms = '09o', version = 'zQs' },
  names = { ['CG9'] = 'namespace', ['qqT'] = 'worker_instance_id', ['wDj'] = 'worker_id', ['zBw'] = 'lanes', ['h2K'] = 'capabilities', ['uMh'] = 'last_heartbeat_ms', ['rZT'] = 'liveness_ttl_ms', ['tP9'] = 'expires_at_ms', ['09o'] = 'registered_at_ms', ['zQs'] = 'version' },
  default_values = { lanes = '[]', capabilities = '[]', version = '0' },
  kept = { namespace = true, worker_instance_id = true },
  small = { 'namespace', 'worker_instance_id', 'worker_id', 'lanes', 'capabilities', 'last_heartbeat_ms', 'liveness_ttl_ms', 'expires_at_ms', 'registered_at_ms', 'version' },
}
T.ff_worker_registry.defaults = { __index = T.ff_worker_registry.default_values }
T.ff_worker_registry_event = {
  code = 'tISR', indexes = {},
  codes = { event_id = 'jmR', namespace = 'CG9', worker_instance_id = 'qqT', event_kind = 'AtC', event_at_ms = 'IFX', reason = 'UK4' },
  names = { ['jmR'] = 'event_id', ['CG9'] = 'namespace', ['qqT'] = 'worker_instance_id', ['AtC'] = 'event_kind', ['IFX'] = 'event_at_ms', ['UK4'] = 'reason' },
  default_values = {  },
  kept = { event_id = true },
  small = { 'event_id', 'namespace', 'worker_instance_id', 'event_kind', 'event_at_ms', 'reason' },
}
T.ff_worker_registry_event.defaults = { __index = T.ff_worker_registry_event.default_values }
T.ff_flow_core = {
  code = 'tDeb', indexes = {},
  codes = { partition_key = 'WYb', flow_id = 'vkT', graph_revision = 'Ndf', public_flow_state = 'isk', created_at_ms = 'yVc', terminal_at_ms = 'Xv6', version = 'zQs', settled_at_ms = 'XsL', parent_partition = 'KMv', parent_execution_id = 'ygS', raw_fields = 'Wpu' },
  names = { ['WYb'] = 'partition_key', ['vkT'] = 'flow_id', ['Ndf'] = 'graph_revision', ['isk'] = 'public_flow_state', ['yVc'] = 'created_at_ms', ['Xv6'] = 'terminal_at_ms', ['zQs'] = 'version', ['XsL'] = 'settled_at_ms', ['KMv'] = 'parent_partition', ['ygS'] = 'parent_execution_id', ['Wpu'] = 'raw_fields' },
  default_values = { graph_revision = '0', public_flow_state = 'open', version = '0', raw_fields = '{}' },
  kept = { partition_key = true, flow_id = true },
  small = { 'partition_key', 'flow_id', 'graph_revision', 'public_flow_state', 'created_at_ms', 'terminal_at_ms', 'version', 'settled_at_ms', 'parent_partition', 'parent_execution_id', 'raw_fields' },
}
T.ff_flow_core.defaults = { __index = T.ff_flow_core.default_values }
T.ff_edge = {
  code = 'tc3Y', indexes = {},
  codes = { partition_key = 'WYb', flow_id = 'vkT', edge_id = '0jz', upstream_eid = 'U9S', downstream_eid = 'zje', edge_state = 'UZq', dep_state = '03T', applied_at_ms = '7Y5', last_resolved_at_ms = 'tUJ', reset_at_ms = 'Ont', policy = 'Yji', policy_version = '70k' },
  names = { ['WYb'] = 'partition_key', ['vkT'] = 'flow_id', ['0jz'] = 'edge_id', ['U9S'] = 'upstream_eid', ['zje'] = 'downstream_eid', ['UZq'] = 'edge_state', ['03T'] = 'dep_state', ['7Y5'] = 'applied_at_ms', ['tUJ'] = 'last_resolved_at_ms', ['Ont'] = 'reset_at_ms', ['Yji'] = 'policy', ['70k'] = 'policy_version' },
  default_values = { edge_state = 'pending', policy = '{}', policy_version = '0' },
  kept = { partition_key = true, flow_id = true, edge_id = true },
  small = { 'partition_key', 'flow_id', 'edge_id', 'upstream_eid', 'downstream_eid', 'edge_state', 'dep_state', 'applied_at_ms', 'last_resolved_at_ms', 'reset_at_ms', 'policy', 'policy_version' },
}
T.ff_edge.defaults = { __index = T.ff_edge.default_values }
T.ff_edge_group = {
  code = 'tJmR', indexes = {},
  codes = { partition_key = 'WYb', flow_id = 'vkT', downstream_eid = 'zje', policy = 'Yji', k_target = 'Z2r', success_count = 'lKP', fail_count = 'GcE', skip_count = 'Cqa', running_count = 'wsV', group_state = 'woT', satisfied_at_ms = '6De', cancel_siblings_pending_flag = 'Qta', cancel_siblings_pending_members = 'HJO', cancel_siblings_reason = 'H80', version = 'zQs' },
  names = { ['WYb'] = 'partition_key', ['vkT'] = 'flow_id', ['zje'] = 'downstream_eid', ['Yji'] = 'policy', ['Z2r'] = 'k_target', ['lKP'] = 'success_count', ['GcE'] = 'fail_count', ['Cqa'] = 'skip_count', ['wsV'] = 'running_count', ['woT'] = 'group_state', ['6De'] = 'satisfied_at_ms', ['Qta'] = 'cancel_siblings_pending_flag', ['HJO'] = 'cancel_siblings_pending_members', ['H80'] = 'cancel_siblings_reason', ['zQs'] = 'version' },
  default_values = { policy = '{}', k_target = '0', success_count = '0', fail_count = '0', skip_count = '0', running_count = '0', group_state = 'pending', cancel_siblings_pending_flag = '0', cancel_siblings_pending_members = '[]', version = '0' },
  kept = { partition_key = true, flow_id = true, downstream_eid = true },
  small = { 'partition_key', 'flow_id', 'downstream_eid', 'policy', 'k_target', 'success_count', 'fail_count', 'skip_count', 'running_count', 'group_state', 'satisfied_at_ms', 'cancel_siblings_pending_flag', 'cancel_siblings_pending_members', 'cancel_siblings_reason', 'version' },
}
T.ff_edge_group.defaults = { __index = T.ff_edge_group.default_values }
T.ff_pending_cancel_groups = {
  code = 'tTnH', indexes = {},
  codes = { partition_key = 'WYb', flow_id = 'vkT', downstream_eid = 'zje', enqueued_at_ms = 'N2S' },
  names = { ['WYb'] = 'partition_key', ['vkT'] = 'flow_id', ['zje'] = 'downstream_eid', ['N2S'] = 'enqueued_at_ms' },
  default_values = {  },
  kept = { partition_key = true, flow_id = true, downstream_eid = true },
  small = { 'partition_key', 'flow_id', 'downstream_eid', 'enqueued_at_ms' },
}
T.ff_pending_cancel_groups.defaults = { __index = T.ff_pending_cancel_groups.default_values }
T.ff_cancel_backlog = {
  code = 'twaY', indexes = {},
  codes = { partition_key = 'WYb', flow_id = 'vkT', requested_at_ms = '3Sy', requester = 'KoK', reason = 'UK4', grace_until_ms = 'tcB', cancellation_policy = 'yND', status = 'eJK' },
  names = { ['WYb'] = 'partition_key', ['vkT'] = 'flow_id', ['3Sy'] = 'requested_at_ms', ['KoK'] = 'requester', ['UK4'] = 'reason', ['tcB'] = 'grace_until_ms', ['yND'] = 'cancellation_policy', ['eJK'] = 'status' },
  default_values = { requester = '', reason = '', status = 'pending' },
  kept = { partition_key = true, flow_id = true },
  small = { 'partition_key', 'flow_id', 'requested_at_ms', 'requester', 'reason', 'grace_until_ms', 'cancellation_policy', 'status' },
}
T.ff_cancel_backlog.defaults = { __index = T.ff_cancel_backlog.default_values }
T.ff_cancel_backlog_member = {
  code = 'tF3J', indexes = {},
  codes = { partition_key = 'WYb', flow_id = 'vkT', execution_id = '6Pr' },
  names = { ['WYb'] = 'partition_key', ['vkT'] = 'flow_id', ['6Pr'] = 'execution_id' },
  default_values = {  },
  kept = { partition_key = true, flow_id = true, execution_id = true },
  small = { 'partition_key', 'flow_id', 'execution_id' },
}
T.ff_cancel_backlog_member.defaults = { __index = T.ff_cancel_backlog_member.default_values }
T.ff_flow_summary = {
  code = 'tC1e', indexes = {},
  codes = { partition_key = 'WYb', flow_id = 'vkT', total_members = 'RYO', sampled_members = 'Nyd', members_completed = 'GGT', members_failed = 'fvM', members_cancelled = 'HAO', members_expired = 'Vtd', members_skipped = 'MZD', members_active = 'woH', members_suspended = 'XUo', members_waiting = 'aQH', members_delayed = 'BBz', members_rate_limited = 'EXF', members_waiting_children = '1DO', public_flow_state = 'isk', last_summary_update_at = 'Ucu' },
  names = { ['WYb'] = 'partition_key', ['vkT'] = 'flow_id', ['RYO'] = 'total_members', ['Nyd'] = 'sampled_members', ['GGT'] = 'members_completed', ['fvM'] = 'members_failed', ['HAO'] = 'members_cancelled', ['Vtd'] = 'members_expired', ['MZD'] = 'members_skipped', ['woH'] = 'members_active', ['XUo'] = 'members_suspended', ['aQH'] = 'members_waiting', ['BBz'] = 'members_delayed', ['EXF'] = 'members_rate_limited', ['1DO'] = 'members_waiting_children', ['isk'] = 'public_flow_state', ['Ucu'] = 'last_summary_update_at' },
  default_values = { total_members = '0', sampled_members = '0', members_completed = '0', members_failed = '0', members_cancelled = '0', members_expired = '0', members_skipped = '0', members_active = '0', members_suspended = '0', members_waiting = '0', members_delayed = '0', members_rate_limited = '0', members_waiting_children = '0' },
  kept = { partition_key = true, flow_id = true },
  small = { 'partition_key', 'flow_id', 'total_members', 'sampled_members', 'members_completed', 'members_failed', 'members_cancelled', 'members_expired', 'members_skipped', 'members_active', 'members_suspended', 'members_waiting', 'members_delayed', 'members_rate_limited', 'members_waiting_children', 'public_flow_state', 'last_summary_update_at' },
}
T.ff_flow_summary.defaults = { __index = T.ff_flow_summary.default_values }
T.ff_lease_event = {
  code = 'tzSR', indexes = {},
  codes = { event_id = 'jmR', execution_id = '6Pr', lease_id = 'wg5', lease_epoch = 'BCm', worker_instance_id = 'qqT', event_type = 'clW', reason = 'UK4', occurred_at_ms = 'fwj', partition_key = 'WYb', namespace = 'CG9', instance_tag = '9zg' },
  names = { ['jmR'] = 'event_id', ['6Pr'] = 'execution_id', ['wg5'] = 'lease_id', ['BCm'] = 'lease_epoch', ['qqT'] = 'worker_instance_id', ['clW'] = 'event_type', ['UK4'] = 'reason', ['fwj'] = 'occurred_at_ms', ['WYb'] = 'partition_key', ['CG9'] = 'namespace', ['9zg'] = 'instance_tag' },
  default_values = { partition_key = '0' },
  kept = { event_id = true },
  small = { 'event_id', 'execution_id', 'lease_id', 'lease_epoch', 'worker_instance_id', 'event_type', 'reason', 'occurred_at_ms', 'partition_key', 'namespace', 'instance_tag' },
}
T.ff_lease_event.defaults = { __index = T.ff_lease_event.default_values }
T.ff_completion_event = {
  code = 'tfjX', indexes = {},
  codes = { event_id = 'jmR', execution_id = '6Pr', flow_id = 'vkT', outcome = 'EtN', occurred_at_ms = 'fwj', committed_at_ms = '49B', dispatched_at_ms = 'uIU', partition_key = 'WYb', namespace = 'CG9', instance_tag = '9zg' },
  names = { ['jmR'] = 'event_id', ['6Pr'] = 'execution_id', ['vkT'] = 'flow_id', ['EtN'] = 'outcome', ['fwj'] = 'occurred_at_ms', ['49B'] = 'committed_at_ms', ['uIU'] = 'dispatched_at_ms', ['WYb'] = 'partition_key', ['CG9'] = 'namespace', ['9zg'] = 'instance_tag' },
  default_values = { committed_at_ms = '0', partition_key = '0' },
  kept = { event_id = true },
  small = { 'event_id', 'execution_id', 'flow_id', 'outcome', 'occurred_at_ms', 'committed_at_ms', 'dispatched_at_ms', 'partition_key', 'namespace', 'instance_tag' },
}
T.ff_completion_event.defaults = { __index = T.ff_completion_event.default_values }
T.ff_operator_event = {
  code = 'tQ6f', indexes = {},
  codes = { event_id = 'jmR', execution_id = '6Pr', event_type = 'clW', details = 'iWx', occurred_at_ms = 'fwj', partition_key = 'WYb', namespace = 'CG9', instance_tag = '9zg' },
  names = { ['jmR'] = 'event_id', ['6Pr'] = 'execution_id', ['clW'] = 'event_type', ['iWx'] = 'details', ['fwj'] = 'occurred_at_ms', ['WYb'] = 'partition_key', ['CG9'] = 'namespace', ['9zg'] = 'instance_tag' },
  default_values = { partition_key = '0' },
  kept = { event_id = true },
  small = { 'event_id', 'execution_id', 'event_type', 'details', 'occurred_at_ms', 'partition_key', 'namespace', 'instance_tag' },
}
T.ff_operator_event.defaults = { __index = T.ff_operator_event.default_values }
T.ff_suspension_current = {
  code = 'tVAj', indexes = {},
  codes = { partition_key = 'WYb', execution_id = '6Pr', suspension_id = 'OA3', suspended_at_ms = 'Zcl', timeout_at_ms = '4Dk', reason_code = 'cXQ', condition = 'jSJ', satisfied_set = 'Gpo', timeout_behavior = 'AUC', attempt_index = 'oxR', requested_by = 'TLx', resume_policy = '6Dd', continuation_metadata_pointer = '4sk', primary_waitpoint_id = 'oXg', last_signal_at_ms = '2Zl', closer_signal_id = 'Iu8', satisfier_signal_ids = 'WMG', closed_at_ms = 't4h', close_reason = 'tLj', version = 'zQs' },
  names = { ['WYb'] = 'partition_key', ['6Pr'] = 'execution_id', ['OA3'] = 'suspension_id', ['Zcl'] = 'suspended_at_ms', ['4Dk'] = 'timeout_at_ms', ['cXQ'] = 'reason_code', ['jSJ'] = 'condition', ['Gpo'] = 'satisfied_set', ['AUC'] = 'timeout_behavior', ['oxR'] = 'attempt_index', ['TLx'] = 'requested_by', ['6Dd'] = 'resume_policy', ['4sk'] = 'continuation_metadata_pointer', ['oXg'] = 'primary_waitpoint_id', ['2Zl'] = 'last_signal_at_ms', ['Iu8'] = 'closer_signal_id', ['WMG'] = 'satisfier_signal_ids', ['t4h'] = 'closed_at_ms', ['tLj'] = 'close_reason', ['zQs'] = 'version' },
  default_values = { satisfied_set = '[]', attempt_index = '0', requested_by = 'worker', resume_policy = '{}', satisfier_signal_ids = '[]', version = '0' },
  kept = { partition_key = true, execution_id = true },
  small = { 'partition_key', 'execution_id', 'suspension_id', 'suspended_at_ms', 'timeout_at_ms', 'reason_code', 'condition', 'satisfied_set', 'timeout_behavior', 'attempt_index', 'requested_by', 'resume_policy', 'continuation_metadata_pointer', 'primary_waitpoint_id', 'last_signal_at_ms', 'closer_signal_id', 'satisfier_signal_ids', 'closed_at_ms', 'close_reason', 'version' },
}
T.ff_suspension_current.defaults = { __index = T.ff_suspension_current.default_values }
T.ff_waitpoint_pending = {
  code = 'tNmn', indexes = {},
  codes = { partition_key = 'WYb', waitpoint_id = 'mbj', execution_id = '6Pr', token_kid = 'YeM', token_digest = 'itU', created_at_ms = 'yVc', expires_at_ms = 'tP9', waitpoint_key = 'MCh', state = 'X27', required_signal_names = 'iM8', activated_at_ms = 'qIj', attempt_index = 'oxR', suspension_id = 'OA3', signal_count = 'MIY', matched_signal_count = 'Me0', last_signal_at_ms = '2Zl', satisfied_at_ms = '6De', closed_at_ms = 't4h', close_reason = 'tLj', version = 'zQs', signals_trimmed = 'd7K', payload_schema = 'l1t', approvers = 'nXv' },
  names = { ['WYb'] = 'partition_key', ['mbj'] = 'waitpoint_id', ['6Pr'] = 'execution_id', ['YeM'] = 'token_kid', ['itU'] = 'token_digest', ['yVc'] = 'created_at_ms', ['tP9'] = 'expires_at_ms', ['MCh'] = 'waitpoint_key', ['X27'] = 'state', ['iM8'] = 'required_signal_names', ['qIj'] = 'activated_at_ms', ['oxR'] = 'attempt_index', ['OA3'] = 'suspension_id', ['MIY'] = 'signal_count', ['Me0'] = 'matched_signal_count', ['2Zl'] = 'last_signal_at_ms', ['6De'] = 'satisfied_at_ms', ['t4h'] = 'closed_at_ms', ['tLj'] = 'close_reason', ['zQs'] = 'version', ['d7K'] = 'signals_trimmed', ['l1t'] = 'payload_schema', ['nXv'] = 'approvers' },
  default_values = { waitpoint_key = '', state = 'pending', required_signal_names = '[]', attempt_index = '0', signal_count = '0', matched_signal_count = '0', version = '0', signals_trimmed = '0', approvers = '[]' },
  kept = { partition_key = true, waitpoint_id = true },
  small = { 'partition_key', 'waitpoint_id', 'execution_id', 'token_kid', 'token_digest', 'created_at_ms', 'expires_at_ms', 'waitpoint_key', 'state', 'required_signal_names', 'activated_at_ms', 'attempt_index', 'suspension_id', 'signal_count', 'matched_signal_count', 'last_signal_at_ms', 'satisfied_at_ms', 'closed_at_ms', 'close_reason', 'version', 'signals_trimmed', 'payload_schema', 'approvers' },
}
T.ff_waitpoint_pending.defaults = { __index = T.ff_waitpoint_pending.default_values }
T.ff_signal = {
  code = 'tEm2', indexes = {},
  codes = { partition_key = 'WYb', execution_id = '6Pr', signal_id = 'xXY', waitpoint_id = 'mbj', waitpoint_key = 'MCh', suspension_id = 'OA3', attempt_index = 'oxR', signal_name = 's8b', signal_category = 'Ej2', source_type = 'Ss5', source_identity = 'y2e', correlation_id = '2wE', payload_encoding = 'LVa', target_scope = 'PMF', idempotency_key = 'zaU', created_at_ms = 'yVc', accepted_at_ms = 'TUe', observed_effect = 'R7O', matched = 'PN7', payload = 'tyj', comment = 'gaw', link = '7LO' },
  names = { ['WYb'] = 'partition_key', ['6Pr'] = 'execution_id', ['xXY'] = 'signal_id', ['mbj'] = 'waitpoint_id', ['MCh'] = 'waitpoint_key', ['OA3'] = 'suspension_id', ['oxR'] = 'attempt_index', ['s8b'] = 'signal_name', ['Ej2'] = 'signal_category', ['Ss5'] = 'source_type', ['y2e'] = 'source_identity', ['2wE'] = 'correlation_id', ['LVa'] = 'payload_encoding', ['PMF'] = 'target_scope', ['zaU'] = 'idempotency_key', ['yVc'] = 'created_at_ms', ['TUe'] = 'accepted_at_ms', ['R7O'] = 'observed_effect', ['PN7'] = 'matched', ['tyj'] = 'payload', ['gaw'] = 'comment', ['7LO'] = 'link' },
  default_values = { waitpoint_key = '', attempt_index = '0', signal_name = '', signal_category = '', source_type = '', source_identity = '', correlation_id = '', target_scope = '', matched = '0', comment = '', link = '' },
  kept = { partition_key = true, execution_id = true, signal_id = true },
  small = { 'partition_key', 'execution_id', 'signal_id', 'waitpoint_id', 'waitpoint_key', 'suspension_id', 'attempt_index', 'signal_name', 'signal_category', 'source_type', 'source_identity', 'correlation_id', 'payload_encoding', 'target_scope', 'idempotency_key', 'created_at_ms', 'accepted_at_ms', 'observed_effect', 'matched', 'payload', 'comment', 'link' },
}
T.ff_signal.defaults = { __index = T.ff_signal.default_values }
T.ff_signal_dedup = {
  code = 'tWK9', indexes = {},
  codes = { partition_key = 'WYb', waitpoint_id = 'mbj', idempotency_key = 'zaU', execution_id = '6Pr', signal_id = 'xXY', expires_at_ms = 'tP9' },
  names = { ['WYb'] = 'partition_key', ['mbj'] = 'waitpoint_id', ['zaU'] = 'idempotency_key', ['6Pr'] = 'execution_id', ['xXY'] = 'signal_id', ['tP9'] = 'expires_at_ms' },
  default_values = {  },
  kept = { partition_key = true, waitpoint_id = true, idempotency_key = true },
  small = { 'partition_key', 'waitpoint_id', 'idempotency_key', 'execution_id', 'signal_id', 'expires_at_ms' },
}
T.ff_signal_dedup.defaults = { __index = T.ff_signal_dedup.default_values }
T.ff_suspend_dedup = {
  code = 'tblq', indexes = {},
  codes = { partition_key = 'WYb', idempotency_key = 'zaU', execution_id = '6Pr', outcome_json = 'K9m', created_at_ms = 'yVc', expires_at_ms = 'tP9' },
  names = { ['WYb'] = 'partition_key', ['zaU'] = 'idempotency_key', ['6Pr'] = 'execution_id', ['K9m'] = 'outcome_json', ['yVc'] = 'created_at_ms', ['tP9'] = 'expires_at_ms' },
  default_values = {  },
  kept = { partition_key = true, idempotency_key = true },
  small = { 'partition_key', 'idempotency_key', 'execution_id', 'outcome_json', 'created_at_ms', 'expires_at_ms' },
}
T.ff_suspend_dedup.defaults = { __index = T.ff_suspend_dedup.default_values }
T.ff_waitpoint_hmac = {
  code = 'tUjs', indexes = {},
  codes = { kid = 'uH3', rotated_at_ms = 'iKA', active = 'Sgb', expires_at_ms = 'tP9', secret = 'Bib' },
  names = { ['uH3'] = 'kid', ['iKA'] = 'rotated_at_ms', ['Sgb'] = 'active', ['tP9'] = 'expires_at_ms', ['Bib'] = 'secret' },
  default_values = { active = '0' },
  kept = { kid = true },
  small = { 'kid', 'rotated_at_ms', 'active', 'expires_at_ms', 'secret' },
}
T.ff_waitpoint_hmac.defaults = { __index = T.ff_waitpoint_hmac.default_values }
T.ff_signal_event = {
  code = 'tToq', indexes = {},
  codes = { event_id = 'jmR', execution_id = '6Pr', signal_id = 'xXY', waitpoint_id = 'mbj', source_identity = 'y2e', event_type = 'clW', occurred_at_ms = 'fwj', partition_key = 'WYb', namespace = 'CG9', instance_tag = '9zg' },
  names = { ['jmR'] = 'event_id', ['6Pr'] = 'execution_id', ['xXY'] = 'signal_id', ['mbj'] = 'waitpoint_id', ['y2e'] = 'source_identity', ['clW'] = 'event_type', ['fwj'] = 'occurred_at_ms', ['WYb'] = 'partition_key', ['CG9'] = 'namespace', ['9zg'] = 'instance_tag' },
  default_values = { partition_key = '0' },
  kept = { event_id = true },
  small = { 'event_id', 'execution_id', 'signal_id', 'waitpoint_id', 'source_identity', 'event_type', 'occurred_at_ms', 'partition_key', 'namespace', 'instance_tag' },
}
T.ff_signal_event.defaults = { __index = T.ff_signal_event.default_values }
T.ff_outbox_trim = {
  code = 'tDiL', indexes = {},
  codes = { channel = 'jWG', event_id = 'jmR' },
  names = { ['jWG'] = 'channel', ['jmR'] = 'event_id' },
  default_values = {  },
  kept = { channel = true },
  small = { 'channel', 'event_id' },
}
T.ff_outbox_trim.defaults = { __index = T.ff_outbox_trim.default_values }
T.ff_budget_policy = {
  code = 'toCi', indexes = {},
  codes = { budget_id = 'Qyy', partition_key = 'WYb', namespace = 'CG9', policy_json = 'IY9', scope_type = '684', scope_id = 'v93', enforcement_mode = '6QW', breach_count = 'sl7', soft_breach_count = 'Xxr', last_breach_at_ms = 'gNd', last_breach_dim = 'jiU', next_reset_at_ms = 'R6O', changed_at_ms = '83r', created_at_ms = 'yVc', updated_at_ms = '23j', version = 'zQs' },
  names = { ['Qyy'] = 'budget_id', ['WYb'] = 'partition_key', ['CG9'] = 'namespace', ['IY9'] = 'policy_json', ['684'] = 'scope_type', ['v93'] = 'scope_id', ['6QW'] = 'enforcement_mode', ['sl7'] = 'breach_count', ['Xxr'] = 'soft_breach_count', ['gNd'] = 'last_breach_at_ms', ['jiU'] = 'last_breach_dim', ['R6O'] = 'next_reset_at_ms', ['83r'] = 'changed_at_ms', ['yVc'] = 'created_at_ms', ['23j'] = 'updated_at_ms', ['zQs'] = 'version' },
  default_values = { partition_key = '0', namespace = 'default', scope_type = '', scope_id = '', enforcement_mode = '', breach_count = '0', soft_breach_count = '0', version = '0' },
  kept = { budget_id = true },
  small = { 'budget_id', 'partition_key', 'namespace', 'policy_json', 'scope_type', 'scope_id', 'enforcement_mode', 'breach_count', 'soft_breach_count', 'last_breach_at_ms', 'last_breach_dim', 'next_reset_at_ms', 'changed_at_ms', 'created_at_ms', 'updated_at_ms', 'version' },
}
T.ff_budget_policy.defaults = { __index = T.ff_budget_policy.default_values }
T.ff_budget_usage = {
  code = 'tMAL', indexes = {},
  codes = { budget_id = 'Qyy', dimensions_key = 'qKF', partition_key = 'WYb', current_value = 'Yw5', last_reset_at_ms = 'Mgd', updated_at_ms = '23j' },
  names = { ['Qyy'] = 'budget_id', ['qKF'] = 'dimensions_key', ['WYb'] = 'partition_key', ['Yw5'] = 'current_value', ['Mgd'] = 'last_reset_at_ms', ['23j'] = 'updated_at_ms' },
  default_values = { partition_key = '0', current_value = '0', updated_at_ms = '0' },
  kept = { budget_id = true, dimensions_key = true },
  small = { 'budget_id', 'dimensions_key', 'partition_key', 'current_value', 'last_reset_at_ms', 'updated_at_ms' },
}
T.ff_budget_usage.defaults = { __index = T.ff_budget_usage.default_values }
T.ff_budget_usage_dedup = {
  code = 'tUVM', indexes = {},
  codes = { budget_id = 'Qyy', dedup_key = 'vJy', partition_key = 'WYb', outcome_json = 'K9m', applied_at_ms = '7Y5', expires_at_ms = 'tP9' },
  names = { ['Qyy'] = 'budget_id', ['vJy'] = 'dedup_key', ['WYb'] = 'partition_key', ['K9m'] = 'outcome_json', ['7Y5'] = 'applied_at_ms', ['tP9'] = 'expires_at_ms' },
  default_values = { partition_key = '0', outcome_json = '{}' },
  kept = { budget_id = true, dedup_key = true },
  small = { 'budget_id', 'dedup_key', 'partition_key', 'outcome_json', 'applied_at_ms', 'expires_at_ms' },
}
T.ff_budget_usage_dedup.defaults = { __index = T.ff_budget_usage_dedup.default_values }
T.ff_budget_usage_by_exec = {
  code = 't3Ij', indexes = {},
  codes = { partition_key = 'WYb', execution_id = '6Pr', dimensions_key = 'qKF', budget_id = 'Qyy', delta_total = 'UY0', updated_at_ms = '23j' },
  names = { ['WYb'] = 'partition_key', ['6Pr'] = 'execution_id', ['qKF'] = 'dimensions_key', ['Qyy'] = 'budget_id', ['UY0'] = 'delta_total', ['23j'] = 'updated_at_ms' },
  default_values = { delta_total = '0', updated_at_ms = '0' },
  kept = { partition_key = true, execution_id = true, dimensions_key = true, budget_id = true },
  small = { 'partition_key', 'execution_id', 'dimensions_key', 'budget_id', 'delta_total', 'updated_at_ms' },
}
T.ff_budget_usage_by_exec.defaults = { __index = T.ff_budget_usage_by_exec.default_values }
T.ff_quota_policy = {
  code = 'tJYQ', indexes = {},
  codes = { quota_policy_id = 's1f', partition_key = 'WYb', namespace = 'CG9', requests_per_window_seconds = 'Ev1', max_requests_per_window = 'z6J', active_concurrency_cap = 'NyJ', active_concurrency = 'HIO', jitter_ms = 'Q49', closed_until_ms = 'wy0', changed_at_ms = '83r', created_at_ms = 'yVc', updated_at_ms = '23j', version = 'zQs' },
  names = { ['s1f'] = 'quota_policy_id', ['WYb'] = 'partition_key', ['CG9'] = 'namespace', ['Ev1'] = 'requests_per_window_seconds', ['z6J'] = 'max_requests_per_window', ['NyJ'] = 'active_concurrency_cap', ['HIO'] = 'active_concurrency', ['Q49'] = 'jitter_ms', ['wy0'] = 'closed_until_ms', ['83r'] = 'changed_at_ms', ['yVc'] = 'created_at_ms', ['23j'] = 'updated_at_ms', ['zQs'] = 'version' },
  default_values = { partition_key = '0', namespace = 'default', active_concurrency = '0', jitter_ms = '0', version = '0' },
  kept = { quota_policy_id = true },
  small = { 'quota_policy_id', 'partition_key', 'namespace', 'requests_per_window_seconds', 'max_requests_per_window', 'active_concurrency_cap', 'active_concurrency', 'jitter_ms', 'closed_until_ms', 'changed_at_ms', 'created_at_ms', 'updated_at_ms', 'version' },
}
T.ff_quota_policy.defaults = { __index = T.ff_quota_policy.default_values }
T.ff_quota_window = {
  code = 'tO4Z', indexes = {},
  codes = { quota_policy_id = 's1f', dimension = 'yzI', admitted_at_ms = 'AWV', execution_id = '6Pr' },
  names = { ['s1f'] = 'quota_policy_id', ['yzI'] = 'dimension', ['AWV'] = 'admitted_at_ms', ['6Pr'] = 'execution_id' },
  default_values = {  },
  kept = { quota_policy_id = true, dimension = true, admitted_at_ms = true, execution_id = true },
  small = { 'quota_policy_id', 'dimension', 'admitted_at_ms', 'execution_id' },
}
T.ff_quota_window.defaults = { __index = T.ff_quota_window.default_values }
T.ff_quota_admitted = {
  code = 't9kP', indexes = {},
  codes = { quota_policy_id = 's1f', execution_id = '6Pr', admitted_at_ms = 'AWV', expires_at_ms = 'tP9' },
  names = { ['s1f'] = 'quota_policy_id', ['6Pr'] = 'execution_id', ['AWV'] = 'admitted_at_ms', ['tP9'] = 'expires_at_ms' },
  default_values = {  },
  kept = { quota_policy_id = true, execution_id = true },
  small = { 'quota_policy_id', 'execution_id', 'admitted_at_ms', 'expires_at_ms' },
}
T.ff_quota_admitted.defaults = { __index = T.ff_quota_admitted.default_values }
T.ff_limit_scope = {
  code = 'tkid', indexes = {},
  codes = { scope_type = '684', scope_id = 'v93', kind = 'jRq', limit_id = 'YHj', attached_at_ms = 'kFy', namespace = 'CG9' },
  names = { ['684'] = 'scope_type', ['v93'] = 'scope_id', ['jRq'] = 'kind', ['YHj'] = 'limit_id', ['kFy'] = 'attached_at_ms', ['CG9'] = 'namespace' },
  default_values = { namespace = 'default' },
  kept = { scope_type = true, scope_id = true, kind = true, limit_id = true },
  small = { 'scope_type', 'scope_id', 'kind', 'limit_id', 'attached_at_ms', 'namespace' },
}
T.ff_limit_scope.defaults = { __index = T.ff_limit_scope.default_values }
T.ff_lane_gate = {
  code = 'tBVX', indexes = {},
  codes = { lane_id = 'tbW', namespace = 'CG9', gate = 'SZK', quota_policy_id = 's1f' },
  names = { ['tbW'] = 'lane_id', ['CG9'] = 'namespace', ['SZK'] = 'gate', ['s1f'] = 'quota_policy_id' },
  default_values = {  },
  kept = { lane_id = true, namespace = true, gate = true },
  small = { 'lane_id', 'namespace', 'gate', 'quota_policy_id' },
}
T.ff_lane_gate.defaults = { __index = T.ff_lane_gate.default_values }
T.ff_task = {
  code = 'ttmP', indexes = {},
  codes = { namespace = 'CG9', name = 'K0W', fingerprint = 'GsO', task_version = 'fd7', quota_policy_id = 's1f', declared_at_ms = 'emh', registered_at_ms = '09o', changed_at_ms = '83r', last_seen_ms = 'lE6', version = 'zQs', head = 'cc8', declaration = '01j' },
  names = { ['CG9'] = 'namespace', ['K0W'] = 'name', ['GsO'] = 'fingerprint', ['fd7'] = 'task_version', ['s1f'] = 'quota_policy_id', ['emh'] = 'declared_at_ms', ['09o'] = 'registered_at_ms', ['83r'] = 'changed_at_ms', ['lE6'] = 'last_seen_ms', ['zQs'] = 'version', ['cc8'] = 'head', ['01j'] = 'declaration' },
  default_values = { task_version = '0', version = '0' },
  kept = { namespace = true, name = true },
  small = { 'namespace', 'name', 'fingerprint', 'task_version', 'quota_policy_id', 'declared_at_ms', 'registered_at_ms', 'changed_at_ms', 'last_seen_ms', 'version', 'head', 'declaration' },
}
T.ff_task.defaults = { __index = T.ff_task.default_values }
T.ff_schedule = {
  code = 'tBOL', indexes = {},
  codes = { namespace = 'CG9', name = 'K0W', cursor_ms = 'G5D', paused = 'ljr' },
  names = { ['CG9'] = 'namespace', ['K0W'] = 'name', ['G5D'] = 'cursor_ms', ['ljr'] = 'paused' },
  default_values = { paused = '0' },
  kept = { namespace = true, name = true },
  small = { 'namespace', 'name', 'cursor_ms', 'paused' },
}
T.ff_schedule.defaults = { __index = T.ff_schedule.default_values }
T.ff_bulk_job = {
  code = 't6g6', indexes = {},
  codes = { job_id = 'RU1', namespace = 'CG9', action = 'khk', args = '6Sa', state = 'X27', cursor = 'UNW', matched = 'PN7', changed = 'OOl', skipped = 'wNF', refused = 'gS8', errors = 'hI5', follow_ups = '62F', created_at_ms = 'yVc', updated_at_ms = '23j', ended_at_ms = 'LRD', version = 'zQs' },
  names = { ['RU1'] = 'job_id', ['CG9'] = 'namespace', ['khk'] = 'action', ['6Sa'] = 'args', ['X27'] = 'state', ['UNW'] = 'cursor', ['PN7'] = 'matched', ['OOl'] = 'changed', ['wNF'] = 'skipped', ['gS8'] = 'refused', ['hI5'] = 'errors', ['62F'] = 'follow_ups', ['yVc'] = 'created_at_ms', ['23j'] = 'updated_at_ms', ['LRD'] = 'ended_at_ms', ['zQs'] = 'version' },
  default_values = { state = 'running', matched = '0', changed = '0', skipped = '0', refused = '0', errors = '[]', follow_ups = '[]', version = '0' },
  kept = { job_id = true },
  small = { 'job_id', 'namespace', 'action', 'args', 'state', 'cursor', 'matched', 'changed', 'skipped', 'refused', 'errors', 'follow_ups', 'created_at_ms', 'updated_at_ms', 'ended_at_ms', 'version' },
}
T.ff_bulk_job.defaults = { __index = T.ff_bulk_job.default_values }
T.ff_api_token = {
  code = 'tQAi', indexes = {},
  codes = { token_id = 'J60', name = 'K0W', digest = 'slg', former_digest = 'VP6', former_until_ms = 'Bs4', roles = '7Q4', namespace = 'CG9', lanes = 'zBw', created_at_ms = 'yVc', created_by = 'kNV', expires_at_ms = 'tP9', rotated_at_ms = 'iKA', revoked_at_ms = 'nxA', last_used_at_ms = 'Cfv', version = 'zQs' },
  names = { ['J60'] = 'token_id', ['K0W'] = 'name', ['slg'] = 'digest', ['VP6'] = 'former_digest', ['Bs4'] = 'former_until_ms', ['7Q4'] = 'roles', ['CG9'] = 'namespace', ['zBw'] = 'lanes', ['yVc'] = 'created_at_ms', ['kNV'] = 'created_by', ['tP9'] = 'expires_at_ms', ['iKA'] = 'rotated_at_ms', ['nxA'] = 'revoked_at_ms', ['Cfv'] = 'last_used_at_ms', ['zQs'] = 'version' },
  default_values = { created_by = '', version = '0' },
  kept = { token_id = true },
  small = { 'token_id', 'name', 'digest', 'former_digest', 'former_until_ms', 'roles', 'namespace', 'lanes', 'created_at_ms', 'created_by', 'expires_at_ms', 'rotated_at_ms', 'revoked_at_ms', 'last_used_at_ms', 'version' },
}
T.ff_api_token.defaults = { __index = T.ff_api_token.default_values }
I.executions = {
  code = 'ii8B', t = T.ff_exec_core,
  grouped = true, primary = true,
  columns = { 'partition_key', 'execution_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) end,
  order = function(r) return uuid(r.execution_id) end,
  key_of = function(member) return member end,
}
I.unowned = {
  code = 'iyxG', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'ownership_state', 'created_at_ms', 'execution_id' },
  test = function(r) return (r.ownership_state ~= nil and r.ownership_state ~= 'leased') and (r.ownership_state ~= nil and r.ownership_state ~= 'lease_expired_reclaimable') end,
  group = function(r) return '' end,
  order = function(r) return int(r.created_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.unowned
I.suspended_executions = {
  code = 'ipxU', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'lifecycle_phase', 'created_at_ms', 'execution_id' },
  test = function(r) return r.lifecycle_phase == 'suspended' end,
  group = function(r) return '' end,
  order = function(r) return int(r.created_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.suspended_executions
I.ready = {
  code = 'i70W', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'lane_id', 'namespace', 'gate', 'priority', 'created_at_ms', 'execution_id' },
  test = function(r) return r.lifecycle_phase == 'runnable' and r.eligibility_state == 'eligible_now' end,
  group = function(r) return word(r.lane_id) .. word(r.namespace) .. word(r.gate) end,
  order = function(r) return int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 32) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.ready
I.held = {
  code = 'iz1Q', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'quota_policy_id', 'ownership_state', 'execution_id' },
  test = function(r) return r.quota_policy_id ~= nil and r.ownership_state == 'leased' end,
  group = function(r) return uuid(r.quota_policy_id) end,
  order = function(r) return uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.held
I.reserved = {
  code = 'iyGf', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'quota_policy_id', 'reserved_until_ms', 'execution_id' },
  test = function(r) return r.quota_policy_id ~= nil and r.reserved_until_ms ~= nil end,
  group = function(r) return uuid(r.quota_policy_id) end,
  order = function(r) return int(r.reserved_until_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.reserved
I.blocked_on = {
  code = 'io9y', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'eligibility_state', 'blocked_on', 'priority', 'created_at_ms', 'execution_id' },
  test = function(r) return (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') and r.blocked_on ~= nil end,
  group = function(r) return word(r.blocked_on) end,
  order = function(r) return int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 32) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.blocked_on
I.delayed = {
  code = 'itrg', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'delay_until_ms', 'execution_id' },
  test = function(r) return r.lifecycle_phase == 'runnable' and r.eligibility_state == 'not_eligible_until_time' end,
  group = function(r) return '' end,
  order = function(r) return int(r.delay_until_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.delayed
I.leased = {
  code = 'ihHA', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'ownership_state', 'lease_expires_at_ms', 'execution_id' },
  test = function(r) return r.ownership_state == 'leased' end,
  group = function(r) return '' end,
  order = function(r) return int(r.lease_expires_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.leased
I.lost = {
  code = 'iwvq', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'ownership_state', 'lease_expires_at_ms', 'execution_id' },
  test = function(r) return r.ownership_state == 'lease_expired_reclaimable' end,
  group = function(r) return '' end,
  order = function(r) return int(r.lease_expires_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.lost
I.attempt_timeout = {
  code = 'iwYq', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'attempt_timeout_at_ms', 'lifecycle_phase', 'execution_id' },
  test = function(r) return r.attempt_timeout_at_ms ~= nil and r.lifecycle_phase == 'active' end,
  group = function(r) return '' end,
  order = function(r) return int(r.attempt_timeout_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.attempt_timeout
I.deadline = {
  code = 'iot1', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'deadline_at_ms', 'lifecycle_phase', 'execution_id' },
  test = function(r) return r.deadline_at_ms ~= nil and (r.lifecycle_phase == 'submitted' or r.lifecycle_phase == 'runnable' or r.lifecycle_phase == 'active' or r.lifecycle_phase == 'suspended') end,
  group = function(r) return '' end,
  order = function(r) return int(r.deadline_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.deadline
I.routed = {
  code = 'iU8J', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'last_transition_at', 'execution_id' },
  test = function(r) return r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_route' end,
  group = function(r) return '' end,
  order = function(r) return int(r.last_transition_at) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.routed
I.limited = {
  code = 'iDWv', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'last_transition_at', 'execution_id' },
  test = function(r) return r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_budget' or r.eligibility_state == 'blocked_by_quota') end,
  group = function(r) return '' end,
  order = function(r) return int(r.last_transition_at) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.limited
I.blocked = {
  code = 'iogQ', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'last_transition_at', 'execution_id' },
  test = function(r) return r.lifecycle_phase == 'runnable' and (r.eligibility_state == 'blocked_by_operator' or r.eligibility_state == 'blocked_by_lane_state') end,
  group = function(r) return '' end,
  order = function(r) return int(r.last_transition_at) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.blocked
I.ended = {
  code = 'iZL0', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'lifecycle_phase', 'retain_until_ms', 'terminal_outcome', 'lane_id', 'terminal_at_ms', 'execution_id' },
  test = function(r) return (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'failed') and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'expired') end,
  group = function(r) return word(r.lane_id) end,
  order = function(r) return int(r.terminal_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.ended
I.failed = {
  code = 'idTS', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'lifecycle_phase', 'retain_until_ms', 'terminal_outcome', 'lane_id', 'terminal_at_ms', 'execution_id' },
  test = function(r) return (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome == 'failed' or r.terminal_outcome == 'expired') end,
  group = function(r) return word(r.lane_id) end,
  order = function(r) return int(r.terminal_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.failed
I.retained = {
  code = 'iMQP', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'lifecycle_phase', 'retain_until_ms', 'lane_id', 'execution_id' },
  test = function(r) return (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms ~= nil end,
  group = function(r) return word(r.lane_id) end,
  order = function(r) return int(r.retain_until_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.retained
I.attempts = {
  code = 'i8wv', t = T.ff_attempt,
  grouped = true, primary = true,
  columns = { 'partition_key', 'execution_id', 'attempt_index' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return int(r.attempt_index) end,
  key_of = function(member) return member end,
}
I.last_attempt = {
  code = 'imoi', t = T.ff_attempt,
  grouped = true, primary = true,
  back = true,
  columns = { 'partition_key', 'execution_id', 'attempt_index' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return int_desc(r.attempt_index) end,
  key_of = function(member) return member end,
}
I.grants = {
  code = 'iwNk', t = T.ff_claim_grant,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'execution_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_claim_grant.indexes[#T.ff_claim_grant.indexes + 1] = I.grants
I.lanes = {
  code = 'izBw', t = T.ff_lane_registry,
  grouped = false, primary = true,
  columns = { 'lane_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.lane_id) end,
  key_of = function(member) return member end,
}
I.idempotency = {
  code = 'iOU9', t = T.ff_idempotency,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'namespace', 'idempotency_key' },
  test = function(r) return r.expires_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. word(r.namespace) .. word(r.idempotency_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 8) + 1 at = string.find(member, '%z', at + 0) + 1 return sub(member, at + 0) end,
}
T.ff_idempotency.indexes[#T.ff_idempotency.indexes + 1] = I.idempotency
I.workers = {
  code = 'iajh', t = T.ff_worker_registry,
  grouped = true, primary = true,
  columns = { 'namespace', 'worker_instance_id' },
  test = function(r) return true end,
  group = function(r) return word(r.namespace) end,
  order = function(r) return word(r.worker_instance_id) end,
  key_of = function(member) return member end,
}
I.all_workers = {
  code = 'iANx', t = T.ff_worker_registry,
  grouped = false, primary = true,
  columns = { 'namespace', 'worker_instance_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.namespace) .. word(r.worker_instance_id) end,
  key_of = function(member) return member end,
}
I.worker_expiry = {
  code = 'iMji', t = T.ff_worker_registry,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'namespace', 'worker_instance_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. word(r.namespace) .. word(r.worker_instance_id) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 8) + 1 at = string.find(member, '%z', at + 0) + 1 return sub(member, at + 0) end,
}
T.ff_worker_registry.indexes[#T.ff_worker_registry.indexes + 1] = I.worker_expiry
I.worker_events = {
  code = 'iDot', t = T.ff_worker_registry_event,
  grouped = false, primary = false,
  columns = { 'event_at_ms', 'event_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.event_at_ms) .. int(r.event_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_worker_registry_event.indexes[#T.ff_worker_registry_event.indexes + 1] = I.worker_events
I.members = {
  code = 'ibMv', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'flow_id', 'partition_key', 'execution_id' },
  test = function(r) return r.flow_id ~= nil end,
  group = function(r) return int(r.partition_key) .. uuid(r.flow_id) end,
  order = function(r) return uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.members
I.dependent = {
  code = 'iUiG', t = T.ff_exec_core,
  grouped = false, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'last_transition_at', 'execution_id' },
  test = function(r) return r.lifecycle_phase == 'runnable' and r.eligibility_state == 'blocked_by_dependencies' end,
  group = function(r) return '' end,
  order = function(r) return int(r.last_transition_at) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_exec_core.indexes[#T.ff_exec_core.indexes + 1] = I.dependent
I.flows = {
  code = 'i7Pg', t = T.ff_flow_core,
  grouped = true, primary = true,
  columns = { 'partition_key', 'flow_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) end,
  order = function(r) return uuid(r.flow_id) end,
  key_of = function(member) return member end,
}
I.unsettled_flows = {
  code = 'ivkg', t = T.ff_flow_core,
  grouped = false, primary = false,
  columns = { 'settled_at_ms', 'created_at_ms', 'flow_id' },
  test = function(r) return r.settled_at_ms == nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.created_at_ms) .. uuid(r.flow_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_flow_core.indexes[#T.ff_flow_core.indexes + 1] = I.unsettled_flows
I.children_of = {
  code = 'ipnI', t = T.ff_flow_core,
  grouped = true, primary = false,
  columns = { 'parent_execution_id', 'parent_partition', 'flow_id' },
  test = function(r) return r.parent_execution_id ~= nil end,
  group = function(r) return int(r.parent_partition) .. uuid(r.parent_execution_id) end,
  order = function(r) return uuid(r.flow_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_flow_core.indexes[#T.ff_flow_core.indexes + 1] = I.children_of
I.edges = {
  code = 'inBi', t = T.ff_edge,
  grouped = true, primary = true,
  columns = { 'partition_key', 'flow_id', 'edge_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.flow_id) end,
  order = function(r) return uuid(r.edge_id) end,
  key_of = function(member) return member end,
}
I.edges_out = {
  code = 'i2mC', t = T.ff_edge,
  grouped = true, primary = false,
  columns = { 'partition_key', 'upstream_eid', 'edge_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.upstream_eid) end,
  order = function(r) return uuid(r.edge_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_edge.indexes[#T.ff_edge.indexes + 1] = I.edges_out
I.edges_in = {
  code = 'iFSD', t = T.ff_edge,
  grouped = true, primary = false,
  columns = { 'partition_key', 'downstream_eid', 'edge_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.downstream_eid) end,
  order = function(r) return uuid(r.edge_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_edge.indexes[#T.ff_edge.indexes + 1] = I.edges_in
I.groups_of_flow = {
  code = 'ioVe', t = T.ff_edge_group,
  grouped = true, primary = true,
  columns = { 'partition_key', 'flow_id', 'downstream_eid' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.flow_id) end,
  order = function(r) return uuid(r.downstream_eid) end,
  key_of = function(member) return member end,
}
I.cancel_groups = {
  code = 'iWsi', t = T.ff_pending_cancel_groups,
  grouped = false, primary = false,
  columns = { 'enqueued_at_ms', 'flow_id', 'downstream_eid' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.enqueued_at_ms) .. uuid(r.flow_id) .. uuid(r.downstream_eid) end,
  key_of = function(member) local at = 1 return sub(member, at + 40) end,
}
T.ff_pending_cancel_groups.indexes[#T.ff_pending_cancel_groups.indexes + 1] = I.cancel_groups
I.cancel_backlog = {
  code = 'iiBD', t = T.ff_cancel_backlog,
  grouped = false, primary = false,
  columns = { 'grace_until_ms', 'flow_id' },
  test = function(r) return r.grace_until_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.grace_until_ms) .. uuid(r.flow_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_cancel_backlog.indexes[#T.ff_cancel_backlog.indexes + 1] = I.cancel_backlog
I.cancel_backlog_since = {
  code = 'iJwy', t = T.ff_cancel_backlog,
  grouped = false, primary = false,
  columns = { 'grace_until_ms', 'requested_at_ms', 'flow_id' },
  test = function(r) return r.grace_until_ms == nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.requested_at_ms) .. uuid(r.flow_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_cancel_backlog.indexes[#T.ff_cancel_backlog.indexes + 1] = I.cancel_backlog_since
I.cancel_backlog_members = {
  code = 'i3Pc', t = T.ff_cancel_backlog_member,
  grouped = true, primary = true,
  columns = { 'partition_key', 'flow_id', 'execution_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.flow_id) end,
  order = function(r) return word(r.execution_id) end,
  key_of = function(member) return member end,
}
I.undispatched = {
  code = 'im2H', t = T.ff_completion_event,
  grouped = false, primary = false,
  columns = { 'dispatched_at_ms', 'flow_id', 'outcome', 'committed_at_ms', 'event_id' },
  test = function(r) return r.dispatched_at_ms == nil and r.flow_id ~= nil and (r.outcome ~= nil and r.outcome ~= 'resumable') end,
  group = function(r) return '' end,
  order = function(r) return int(r.committed_at_ms) .. int(r.event_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_completion_event.indexes[#T.ff_completion_event.indexes + 1] = I.undispatched
I.suspended = {
  code = 'i3QH', t = T.ff_suspension_current,
  grouped = true, primary = false,
  columns = { 'closed_at_ms', 'partition_key', 'suspended_at_ms', 'execution_id' },
  test = function(r) return r.closed_at_ms == nil end,
  group = function(r) return int(r.partition_key) end,
  order = function(r) return int(r.suspended_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_suspension_current.indexes[#T.ff_suspension_current.indexes + 1] = I.suspended
I.suspension_timeout = {
  code = 'ixY2', t = T.ff_suspension_current,
  grouped = false, primary = false,
  columns = { 'closed_at_ms', 'timeout_at_ms', 'execution_id' },
  test = function(r) return r.closed_at_ms == nil and r.timeout_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.timeout_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_suspension_current.indexes[#T.ff_suspension_current.indexes + 1] = I.suspension_timeout
I.waitpoints_of = {
  code = 'i3Pe', t = T.ff_waitpoint_pending,
  grouped = true, primary = false,
  columns = { 'partition_key', 'execution_id', 'waitpoint_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return uuid(r.waitpoint_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_waitpoint_pending.indexes[#T.ff_waitpoint_pending.indexes + 1] = I.waitpoints_of
I.waitpoint_expiry = {
  code = 'iH8Q', t = T.ff_waitpoint_pending,
  grouped = false, primary = false,
  columns = { 'state', 'expires_at_ms', 'waitpoint_id' },
  test = function(r) return r.state == 'pending' and r.expires_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. uuid(r.waitpoint_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_waitpoint_pending.indexes[#T.ff_waitpoint_pending.indexes + 1] = I.waitpoint_expiry
I.open_waitpoints = {
  code = 'ilyu', t = T.ff_waitpoint_pending,
  grouped = false, primary = false,
  columns = { 'state', 'created_at_ms', 'waitpoint_id' },
  test = function(r) return (r.state == 'pending' or r.state == 'active') end,
  group = function(r) return '' end,
  order = function(r) return int(r.created_at_ms) .. uuid(r.waitpoint_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_waitpoint_pending.indexes[#T.ff_waitpoint_pending.indexes + 1] = I.open_waitpoints
I.signals_of = {
  code = 'iRaW', t = T.ff_signal,
  grouped = true, primary = false,
  columns = { 'partition_key', 'execution_id', 'accepted_at_ms', 'signal_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return int(r.accepted_at_ms) .. uuid(r.signal_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_signal.indexes[#T.ff_signal.indexes + 1] = I.signals_of
I.signal_dedup_expiry = {
  code = 'iowP', t = T.ff_signal_dedup,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'waitpoint_id', 'idempotency_key' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. uuid(r.waitpoint_id) .. word(r.idempotency_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 24) + 1 return sub(member, at + 0) end,
}
T.ff_signal_dedup.indexes[#T.ff_signal_dedup.indexes + 1] = I.signal_dedup_expiry
I.suspend_dedup_expiry = {
  code = 'ieRn', t = T.ff_suspend_dedup,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'idempotency_key' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. word(r.idempotency_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 8) + 1 return sub(member, at + 0) end,
}
T.ff_suspend_dedup.indexes[#T.ff_suspend_dedup.indexes + 1] = I.suspend_dedup_expiry
I.signal_dedup_of = {
  code = 'isva', t = T.ff_signal_dedup,
  grouped = true, primary = false,
  columns = { 'partition_key', 'execution_id', 'waitpoint_id', 'idempotency_key' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return uuid(r.waitpoint_id) .. word(r.idempotency_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 16) + 1 return sub(member, at + 0) end,
}
T.ff_signal_dedup.indexes[#T.ff_signal_dedup.indexes + 1] = I.signal_dedup_of
I.suspend_dedup_of = {
  code = 'imBk', t = T.ff_suspend_dedup,
  grouped = true, primary = false,
  columns = { 'partition_key', 'execution_id', 'idempotency_key' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return word(r.idempotency_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 0) + 1 return sub(member, at + 0) end,
}
T.ff_suspend_dedup.indexes[#T.ff_suspend_dedup.indexes + 1] = I.suspend_dedup_of
I.hmac_keys = {
  code = 'iBTk', t = T.ff_waitpoint_hmac,
  grouped = false, primary = true,
  columns = { 'kid' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.kid) end,
  key_of = function(member) return member end,
}
I.budgets = {
  code = 'iEIU', t = T.ff_budget_policy,
  grouped = false, primary = true,
  columns = { 'budget_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return uuid(r.budget_id) end,
  key_of = function(member) return member end,
}
I.budget_resets = {
  code = 'ixeY', t = T.ff_budget_policy,
  grouped = false, primary = false,
  columns = { 'next_reset_at_ms', 'budget_id' },
  test = function(r) return r.next_reset_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.next_reset_at_ms) .. uuid(r.budget_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_budget_policy.indexes[#T.ff_budget_policy.indexes + 1] = I.budget_resets
I.usage_of = {
  code = 'iwWD', t = T.ff_budget_usage,
  grouped = true, primary = true,
  columns = { 'budget_id', 'dimensions_key' },
  test = function(r) return true end,
  group = function(r) return uuid(r.budget_id) end,
  order = function(r) return word(r.dimensions_key) end,
  key_of = function(member) return member end,
}
I.usage_dedup_expiry = {
  code = 'ih0y', t = T.ff_budget_usage_dedup,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'budget_id', 'dedup_key' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. uuid(r.budget_id) .. word(r.dedup_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 24) + 1 return sub(member, at + 0) end,
}
T.ff_budget_usage_dedup.indexes[#T.ff_budget_usage_dedup.indexes + 1] = I.usage_dedup_expiry
I.ledger_of = {
  code = 'i3WE', t = T.ff_budget_usage_by_exec,
  grouped = true, primary = true,
  columns = { 'partition_key', 'execution_id', 'dimensions_key', 'budget_id' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return word(r.dimensions_key) .. uuid(r.budget_id) end,
  key_of = function(member) return member end,
}
I.ledger_of_budget = {
  code = 'iKSd', t = T.ff_budget_usage_by_exec,
  grouped = true, primary = false,
  columns = { 'budget_id', 'partition_key', 'execution_id', 'dimensions_key' },
  test = function(r) return true end,
  group = function(r) return uuid(r.budget_id) end,
  order = function(r) return int(r.partition_key) .. uuid(r.execution_id) .. word(r.dimensions_key) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 24) + 1 return sub(member, at + 0) end,
}
T.ff_budget_usage_by_exec.indexes[#T.ff_budget_usage_by_exec.indexes + 1] = I.ledger_of_budget
I.quotas = {
  code = 'iThF', t = T.ff_quota_policy,
  grouped = false, primary = true,
  columns = { 'quota_policy_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return uuid(r.quota_policy_id) end,
  key_of = function(member) return member end,
}
I.quota_window = {
  code = 'iuB6', t = T.ff_quota_window,
  grouped = true, primary = true,
  columns = { 'quota_policy_id', 'dimension', 'admitted_at_ms', 'execution_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.quota_policy_id) .. word(r.dimension) end,
  order = function(r) return int(r.admitted_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) return member end,
}
I.quota_entries = {
  code = 'iVWY', t = T.ff_quota_window,
  grouped = true, primary = true,
  columns = { 'quota_policy_id', 'dimension', 'admitted_at_ms', 'execution_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.quota_policy_id) end,
  order = function(r) return word(r.dimension) .. int(r.admitted_at_ms) .. uuid(r.execution_id) end,
  key_of = function(member) return member end,
}
I.quota_admitted = {
  code = 'iz7I', t = T.ff_quota_admitted,
  grouped = true, primary = true,
  columns = { 'quota_policy_id', 'execution_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.quota_policy_id) end,
  order = function(r) return word(r.execution_id) end,
  key_of = function(member) return member end,
}
I.limit_scopes = {
  code = 'ihxt', t = T.ff_limit_scope,
  grouped = false, primary = true,
  columns = { 'scope_type', 'scope_id', 'kind', 'limit_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.scope_type) .. word(r.scope_id) .. word(r.kind) .. uuid(r.limit_id) end,
  key_of = function(member) return member end,
}
I.lane_gates = {
  code = 'i5GT', t = T.ff_lane_gate,
  grouped = true, primary = true,
  columns = { 'lane_id', 'namespace', 'gate' },
  test = function(r) return true end,
  group = function(r) return word(r.lane_id) .. word(r.namespace) end,
  order = function(r) return word(r.gate) end,
  key_of = function(member) return member end,
}
I.all_gates = {
  code = 'idce', t = T.ff_lane_gate,
  grouped = false, primary = true,
  columns = { 'lane_id', 'namespace', 'gate' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.lane_id) .. word(r.namespace) .. word(r.gate) end,
  key_of = function(member) return member end,
}
I.gates_of_lane = {
  code = 'ifKl', t = T.ff_lane_gate,
  grouped = true, primary = true,
  columns = { 'lane_id', 'namespace', 'gate' },
  test = function(r) return true end,
  group = function(r) return word(r.lane_id) end,
  order = function(r) return word(r.namespace) .. word(r.gate) end,
  key_of = function(member) return member end,
}
I.schedules = {
  code = 'ie4Q', t = T.ff_schedule,
  grouped = true, primary = true,
  columns = { 'namespace', 'name' },
  test = function(r) return true end,
  group = function(r) return word(r.namespace) end,
  order = function(r) return word(r.name) end,
  key_of = function(member) return member end,
}
I.all_schedules = {
  code = 'igdr', t = T.ff_schedule,
  grouped = false, primary = true,
  columns = { 'namespace', 'name' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.namespace) .. word(r.name) end,
  key_of = function(member) return member end,
}
I.tasks = {
  code = 'iXGW', t = T.ff_task,
  grouped = true, primary = true,
  columns = { 'namespace', 'name' },
  test = function(r) return true end,
  group = function(r) return word(r.namespace) end,
  order = function(r) return word(r.name) end,
  key_of = function(member) return member end,
}
I.all_tasks = {
  code = 'ieF4', t = T.ff_task,
  grouped = false, primary = true,
  columns = { 'namespace', 'name' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return word(r.namespace) .. word(r.name) end,
  key_of = function(member) return member end,
}
I.bulk_jobs = {
  code = 'ihzi', t = T.ff_bulk_job,
  grouped = false, primary = false,
  columns = { 'created_at_ms', 'job_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return int(r.created_at_ms) .. uuid(r.job_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_bulk_job.indexes[#T.ff_bulk_job.indexes + 1] = I.bulk_jobs
I.bulk_running = {
  code = 'iLrl', t = T.ff_bulk_job,
  grouped = false, primary = false,
  columns = { 'state', 'updated_at_ms', 'job_id' },
  test = function(r) return r.state == 'running' end,
  group = function(r) return '' end,
  order = function(r) return int(r.updated_at_ms) .. uuid(r.job_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_bulk_job.indexes[#T.ff_bulk_job.indexes + 1] = I.bulk_running
I.bulk_ended = {
  code = 'iq8Q', t = T.ff_bulk_job,
  grouped = false, primary = false,
  columns = { 'ended_at_ms', 'job_id' },
  test = function(r) return r.ended_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.ended_at_ms) .. uuid(r.job_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_bulk_job.indexes[#T.ff_bulk_job.indexes + 1] = I.bulk_ended
I.api_tokens = {
  code = 'ig54', t = T.ff_api_token,
  grouped = false, primary = true,
  columns = { 'token_id' },
  test = function(r) return true end,
  group = function(r) return '' end,
  order = function(r) return uuid(r.token_id) end,
  key_of = function(member) return member end,
}
I.live_tokens = {
  code = 'igjY', t = T.ff_api_token,
  grouped = false, primary = false,
  columns = { 'revoked_at_ms', 'token_id' },
  test = function(r) return r.revoked_at_ms == nil end,
  group = function(r) return '' end,
  order = function(r) return uuid(r.token_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 16) end,
}
T.ff_api_token.indexes[#T.ff_api_token.indexes + 1] = I.live_tokens
I.revoked_tokens = {
  code = 'iWIR', t = T.ff_api_token,
  grouped = false, primary = false,
  columns = { 'revoked_at_ms', 'token_id' },
  test = function(r) return r.revoked_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.revoked_at_ms) .. uuid(r.token_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 24) end,
}
T.ff_api_token.indexes[#T.ff_api_token.indexes + 1] = I.revoked_tokens
I.steps = {
  code = 'iEpV', t = T.ff_step,
  grouped = true, primary = true,
  columns = { 'partition_key', 'execution_id', 'position' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) end,
  order = function(r) return int(r.position) end,
  key_of = function(member) return member end,
}
I.frames = {
  code = 'iIFQ', t = T.ff_stream_frame,
  grouped = true, primary = true,
  columns = { 'partition_key', 'execution_id', 'attempt_index', 'ts_ms', 'seq' },
  test = function(r) return true end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) .. int(r.attempt_index) end,
  order = function(r) return int(r.ts_ms) .. int(r.seq) end,
  key_of = function(member) return member end,
}
I.kept_frames = {
  code = 'i8Yx', t = T.ff_stream_frame,
  grouped = true, primary = true,
  columns = { 'mode', 'partition_key', 'execution_id', 'attempt_index', 'ts_ms', 'seq' },
  test = function(r) return (r.mode ~= nil and r.mode ~= 'best_effort') end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) .. int(r.attempt_index) end,
  order = function(r) return int(r.ts_ms) .. int(r.seq) end,
  key_of = function(member) return member end,
}
I.durable_frames = {
  code = 'iwa6', t = T.ff_stream_frame,
  grouped = true, primary = true,
  columns = { 'mode', 'partition_key', 'execution_id', 'attempt_index', 'ts_ms', 'seq' },
  test = function(r) return r.mode == 'durable' end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) .. int(r.attempt_index) end,
  order = function(r) return int(r.ts_ms) .. int(r.seq) end,
  key_of = function(member) return member end,
}
I.passing_frames = {
  code = 'imEU', t = T.ff_stream_frame,
  grouped = true, primary = false,
  columns = { 'mode', 'partition_key', 'execution_id', 'attempt_index', 'mode_number' },
  test = function(r) return (r.mode ~= nil and r.mode ~= 'durable') end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) .. int(r.attempt_index) .. word(r.mode) end,
  order = function(r) return int(r.mode_number) end,
  key_of = function(member) local at = 1 return sub(member, at + 8) end,
}
T.ff_stream_frame.indexes[#T.ff_stream_frame.indexes + 1] = I.passing_frames
I.frames_by_caller = {
  code = 'isYf', t = T.ff_stream_frame,
  grouped = true, primary = false,
  columns = { 'client_seq', 'partition_key', 'execution_id', 'attempt_index' },
  test = function(r) return r.client_seq ~= nil end,
  group = function(r) return int(r.partition_key) .. uuid(r.execution_id) .. int(r.attempt_index) end,
  order = function(r) return int(r.client_seq) end,
  key_of = function(member) local at = 1 return sub(member, at + 8) end,
}
T.ff_stream_frame.indexes[#T.ff_stream_frame.indexes + 1] = I.frames_by_caller
I.expiring_frames = {
  code = 'iO08', t = T.ff_stream_frame,
  grouped = false, primary = false,
  columns = { 'expires_at_ms', 'execution_id', 'attempt_index', 'ts_ms', 'seq' },
  test = function(r) return r.expires_at_ms ~= nil end,
  group = function(r) return '' end,
  order = function(r) return int(r.expires_at_ms) .. uuid(r.execution_id) .. int(r.attempt_index) .. int(r.ts_ms) .. int(r.seq) end,
  key_of = function(member) local at = 1 return sub(member, at + 48) end,
}
T.ff_stream_frame.indexes[#T.ff_stream_frame.indexes + 1] = I.expiring_frames
I.signal_events_of = {
  code = 'i9ar', t = T.ff_signal_event,
  grouped = true, primary = false,
  columns = { 'execution_id', 'event_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.execution_id) end,
  order = function(r) return int(r.event_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 8) end,
}
T.ff_signal_event.indexes[#T.ff_signal_event.indexes + 1] = I.signal_events_of
I.lease_events_of = {
  code = 'iZcW', t = T.ff_lease_event,
  grouped = true, primary = false,
  columns = { 'execution_id', 'event_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.execution_id) end,
  order = function(r) return int(r.event_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 8) end,
}
T.ff_lease_event.indexes[#T.ff_lease_event.indexes + 1] = I.lease_events_of
I.completion_events_of = {
  code = 'iy17', t = T.ff_completion_event,
  grouped = true, primary = false,
  columns = { 'execution_id', 'event_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.execution_id) end,
  order = function(r) return int(r.event_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 8) end,
}
T.ff_completion_event.indexes[#T.ff_completion_event.indexes + 1] = I.completion_events_of
I.operator_events_of = {
  code = 'iq54', t = T.ff_operator_event,
  grouped = true, primary = false,
  columns = { 'execution_id', 'event_id' },
  test = function(r) return true end,
  group = function(r) return uuid(r.execution_id) end,
  order = function(r) return int(r.event_id) end,
  key_of = function(member) local at = 1 return sub(member, at + 8) end,
}
T.ff_operator_event.indexes[#T.ff_operator_event.indexes + 1] = I.operator_events_of
I.ready_namespaces = {
  code = 'i6Rf', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'lane_id', 'namespace' },
  test = function(r) return r.lifecycle_phase == 'runnable' and r.eligibility_state == 'eligible_now' end,
  group = function(r) return word(r.lane_id) end,
  order = function(r) return word(r.namespace) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 0) + 1 return sub(member, at + 0) end,
}
I.ready_namespaces.base = I.ready
I.ready_gates = {
  code = 'iZQg', t = T.ff_exec_core,
  grouped = true, primary = false,
  columns = { 'lifecycle_phase', 'eligibility_state', 'lane_id', 'namespace', 'gate' },
  test = function(r) return r.lifecycle_phase == 'runnable' and r.eligibility_state == 'eligible_now' end,
  group = function(r) return word(r.lane_id) .. word(r.namespace) end,
  order = function(r) return word(r.gate) end,
  key_of = function(member) local at = 1 at = string.find(member, '%z', at + 0) + 1 return sub(member, at + 0) end,
}
I.ready_gates.base = I.ready
