-- update_budget(budget_id, version, policy_json, next_reset_at_ms, namespace, details)
local constant_0 = { 'version', 'policy_json', 'next_reset_at_ms', 'changed_at_ms', 'updated_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_budget_policy, pk)
      if not (r and same(r.version, a[3])) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(a[4], 'policy_json')
      local c2 = a[5]
      local c3 = time
      local c4 = required(time, 'updated_at_ms')
      local g0, m0
      if r.next_reset_at_ms ~= nil then g0, m0 = '', int(r.next_reset_at_ms) .. uuid(r.budget_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.policy_json ~= c1 then k = k + 2 s[k - 1], s[k] = 'IY9', c1 end
      if r.next_reset_at_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = 'R6O' else k = k + 2 s[k - 1], s[k] = 'R6O', c2 end end
      if r.changed_at_ms ~= c3 then if c3 == nil then j = j + 1 u[j] = '83r' else k = k + 2 s[k - 1], s[k] = '83r', c3 end end
      if r.updated_at_ms ~= c4 then k = k + 2 s[k - 1], s[k] = '23j', c4 end
      note_change(T.ff_budget_policy, pk, r, constant_0, { version = r.version, policy_json = r.policy_json, next_reset_at_ms = r.next_reset_at_ms, changed_at_ms = r.changed_at_ms, updated_at_ms = r.updated_at_ms })
      r.version = c0
      r.policy_json = c1
      r.next_reset_at_ms = c2
      r.changed_at_ms = c3
      r.updated_at_ms = c4
      local h0, o0
      if r.next_reset_at_ms ~= nil then h0, o0 = '', int(r.next_reset_at_ms) .. uuid(r.budget_id) .. pk end
      change(T.ff_budget_policy, pk, s, u)
      move(I.budget_resets, g0, m0, h0, o0)
      n = r
    end
    do
      local v_event_id = next_number(T.ff_operator_event)
      local v_execution_id = required(a[2], 'execution_id')
      local v_details = a[7]
      local v_occurred_at_ms = required(time, 'occurred_at_ms')
      local v_namespace = a[6]
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'budget_updated', 'fwj', v_occurred_at_ms }, 8
      if v_details ~= nil then k = k + 2 s[k - 1], s[k] = 'iWx', v_details end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      make(T.ff_operator_event, pk, s)
      add(I.operator_events_of, h0, o0)
    end
    wake('ff_operator_event', '', '', '')
    wake('budget_resets', '', '', a[5])
    return { 1 }
  end,
}
