-- move_execution(partition_key, execution_id, version, lane_id, budget_ids, quota_policy_id, gate, now, details)
local function is_met_0(r, a, b, n, time) return r and (r.state == 'draining' or r.state == 'disabled') end
local constant_1 = { 'reserved_for', 'reserved_until_ms', 'lane_id', 'budget_ids', 'quota_policy_id', 'gate', 'version', 'last_mutation_at' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4]) and not (a[5] ~= nil and is_met_0(fetch(T.ff_lane_registry, word(a[5])), a, b, n, time))) then refuse(0) end
      local c2 = required(a[5], 'lane_id')
      local c3 = required(a[6], 'budget_ids')
      local c4 = a[7]
      local c5 = required(a[8], 'gate')
      local c6 = required(plus(r.version, '1'), 'version')
      local c7 = required(a[9], 'last_mutation_at')
      local g0, m0
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'eligible_now' then g0, m0 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local g1, m1
      if r.quota_policy_id ~= nil and r.ownership_state == 'leased' then g1, m1 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local g2, m2
      if r.quota_policy_id ~= nil and r.reserved_until_ms ~= nil then g2, m2 = uuid(r.quota_policy_id), int(r.reserved_until_ms) .. uuid(r.execution_id) .. pk end
      local g3, m3
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'failed') and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'expired') then g3, m3 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local g4, m4
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome == 'failed' or r.terminal_outcome == 'expired') then g4, m4 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local g5, m5
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms ~= nil then g5, m5 = word(r.lane_id), int(r.retain_until_ms) .. uuid(r.execution_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.reserved_for ~= nil then j = j + 1 u[j] = 'una' end
      if r.reserved_until_ms ~= nil then j = j + 1 u[j] = '2Tv' end
      if r.lane_id ~= c2 then k = k + 2 s[k - 1], s[k] = 'tbW', c2 end
      if r.budget_ids ~= c3 then if c3 == '[]' then j = j + 1 u[j] = '3cE' else k = k + 2 s[k - 1], s[k] = '3cE', c3 end end
      if r.quota_policy_id ~= c4 then if c4 == nil then j = j + 1 u[j] = 's1f' else k = k + 2 s[k - 1], s[k] = 's1f', c4 end end
      if r.gate ~= c5 then if c5 == '' then j = j + 1 u[j] = 'SZK' else k = k + 2 s[k - 1], s[k] = 'SZK', c5 end end
      if r.version ~= c6 then if c6 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c6 end end
      if r.last_mutation_at ~= c7 then if c7 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c7 end end
      note_change(T.ff_exec_core, pk, r, constant_1, { reserved_for = r.reserved_for, reserved_until_ms = r.reserved_until_ms, lane_id = r.lane_id, budget_ids = r.budget_ids, quota_policy_id = r.quota_policy_id, gate = r.gate, version = r.version, last_mutation_at = r.last_mutation_at })
      r.reserved_for = nil
      r.reserved_until_ms = nil
      r.lane_id = c2
      r.budget_ids = c3
      r.quota_policy_id = c4
      r.gate = c5
      r.version = c6
      r.last_mutation_at = c7
      local h0, o0
      if r.lifecycle_phase == 'runnable' and r.eligibility_state == 'eligible_now' then h0, o0 = word(r.lane_id) .. word(r.namespace) .. word(r.gate), int_desc(r.priority) .. int(r.created_at_ms) .. uuid(r.execution_id) .. pk end
      local h1, o1
      if r.quota_policy_id ~= nil and r.ownership_state == 'leased' then h1, o1 = uuid(r.quota_policy_id), uuid(r.execution_id) .. pk end
      local h3, o3
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'failed') and (r.terminal_outcome ~= nil and r.terminal_outcome ~= 'expired') then h3, o3 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local h4, o4
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms == nil and (r.terminal_outcome == 'failed' or r.terminal_outcome == 'expired') then h4, o4 = word(r.lane_id), int(r.terminal_at_ms) .. uuid(r.execution_id) .. pk end
      local h5, o5
      if (r.lifecycle_phase == 'terminal' or r.lifecycle_phase == 'cancelled') and r.retain_until_ms ~= nil then h5, o5 = word(r.lane_id), int(r.retain_until_ms) .. uuid(r.execution_id) .. pk end
      change(T.ff_exec_core, pk, s, u)
      move(I.ready, g0, m0, h0, o0)
      move(I.held, g1, m1, h1, o1)
      if m2 then remove(I.reserved, g2, m2) end
      move(I.ended, g3, m3, h3, o3)
      move(I.failed, g4, m4, h4, o4)
      move(I.retained, g5, m5, h5, o5)
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.execution_id)
      local r = n.partition_key ~= nil and n.execution_id ~= nil and fetch(T.ff_claim_grant, pk)
      if r then
        erase(T.ff_claim_grant, pk)
      end
    end
    do
      local v_event_id = next_number(T.ff_operator_event)
      local v_execution_id = required(n.execution_id, 'execution_id')
      local v_details = a[10]
      local v_occurred_at_ms = required(a[9], 'occurred_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = n.namespace
      local v_instance_tag = n.instance_tag
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'moved', 'fwj', v_occurred_at_ms }, 8
      if v_details ~= nil then k = k + 2 s[k - 1], s[k] = 'iWx', v_details end
      if v_partition_key ~= '0' then k = k + 2 s[k - 1], s[k] = 'WYb', v_partition_key end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_instance_tag ~= nil then k = k + 2 s[k - 1], s[k] = '9zg', v_instance_tag end
      make(T.ff_operator_event, pk, s)
      add(I.operator_events_of, h0, o0)
    end
    wake('ff_operator_event', '', '', '')
    return { 1 }
  end,
}
