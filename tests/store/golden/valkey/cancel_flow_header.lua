-- cancel_flow_header(partition_key, flow_id, version, now, raw_fields, namespace, details)
local constant_0 = { 'version', 'public_flow_state', 'terminal_at_ms', 'raw_fields', 'settled_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_flow_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c2 = (r.terminal_at_ms or a[5])
      local c3 = required(a[6], 'raw_fields')
      local g0, m0
      if r.settled_at_ms == nil then g0, m0 = '', int(r.created_at_ms) .. uuid(r.flow_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.public_flow_state ~= 'cancelled' then k = k + 2 s[k - 1], s[k] = 'isk', 'cancelled' end
      if r.terminal_at_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = 'Xv6' else k = k + 2 s[k - 1], s[k] = 'Xv6', c2 end end
      if r.raw_fields ~= c3 then if c3 == '{}' then j = j + 1 u[j] = 'Wpu' else k = k + 2 s[k - 1], s[k] = 'Wpu', c3 end end
      if r.settled_at_ms ~= nil then j = j + 1 u[j] = 'XsL' end
      note_change(T.ff_flow_core, pk, r, constant_0, { version = r.version, public_flow_state = r.public_flow_state, terminal_at_ms = r.terminal_at_ms, raw_fields = r.raw_fields, settled_at_ms = r.settled_at_ms })
      r.version = c0
      r.public_flow_state = 'cancelled'
      r.terminal_at_ms = c2
      r.raw_fields = c3
      r.settled_at_ms = nil
      local h0, o0 = '', int(r.created_at_ms) .. uuid(r.flow_id) .. pk
      change(T.ff_flow_core, pk, s, u)
      move(I.unsettled_flows, g0, m0, h0, o0)
      n = r
    end
    do
      local v_event_id = next_number(T.ff_operator_event)
      local v_execution_id = required(n.flow_id, 'execution_id')
      local v_details = a[8]
      local v_occurred_at_ms = required(a[5], 'occurred_at_ms')
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_namespace = a[7]
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'flow_cancel_requested', 'fwj', v_occurred_at_ms }, 8
      if v_details ~= nil then k = k + 2 s[k - 1], s[k] = 'iWx', v_details end
      if v_partition_key ~= '0' then k = k + 2 s[k - 1], s[k] = 'WYb', v_partition_key end
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      make(T.ff_operator_event, pk, s)
      add(I.operator_events_of, h0, o0)
    end
    wake('ff_operator_event', '', '', '')
    return { 1 }
  end,
}
