-- cancel_flow_in_pages(partition_key, flow_id, version, now, raw_fields, reason, grace_until_ms, cancellation_policy)
local constant_0 = { 'version', 'public_flow_state', 'terminal_at_ms', 'raw_fields', 'settled_at_ms' }
local constant_1 = { 'requested_at_ms', 'status', 'grace_until_ms', 'cancellation_policy' }
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
      local v_partition_key = required(a[2], 'partition_key')
      local v_flow_id = required(a[3], 'flow_id')
      local v_requested_at_ms = required(a[5], 'requested_at_ms')
      local v_reason = required(a[7], 'reason')
      local v_grace_until_ms = a[8]
      local v_cancellation_policy = required(a[9], 'cancellation_policy')
      local pk = int(v_partition_key) .. uuid(v_flow_id)
      local r = fetch(T.ff_cancel_backlog, pk)
      if r then
        local c0 = required((r.requested_at_ms or time), 'requested_at_ms')
        local c2 = a[8]
        local c3 = required(a[9], 'cancellation_policy')
        local g0, m0
        if r.grace_until_ms ~= nil then g0, m0 = '', int(r.grace_until_ms) .. uuid(r.flow_id) .. pk end
        local g1, m1
        if r.grace_until_ms == nil then g1, m1 = '', int(r.requested_at_ms) .. uuid(r.flow_id) .. pk end
        local s, k, u, j = {}, 0, {}, 0
        if r.requested_at_ms ~= c0 then k = k + 2 s[k - 1], s[k] = '3Sy', c0 end
        if r.status ~= 'listing' then k = k + 2 s[k - 1], s[k] = 'eJK', 'listing' end
        if r.grace_until_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = 'tcB' else k = k + 2 s[k - 1], s[k] = 'tcB', c2 end end
        if r.cancellation_policy ~= c3 then k = k + 2 s[k - 1], s[k] = 'yND', c3 end
        note_change(T.ff_cancel_backlog, pk, r, constant_1, { requested_at_ms = r.requested_at_ms, status = r.status, grace_until_ms = r.grace_until_ms, cancellation_policy = r.cancellation_policy })
        r.requested_at_ms = c0
        r.status = 'listing'
        r.grace_until_ms = c2
        r.cancellation_policy = c3
        local h0, o0
        if r.grace_until_ms ~= nil then h0, o0 = '', int(r.grace_until_ms) .. uuid(r.flow_id) .. pk end
        local h1, o1
        if r.grace_until_ms == nil then h1, o1 = '', int(r.requested_at_ms) .. uuid(r.flow_id) .. pk end
        change(T.ff_cancel_backlog, pk, s, u)
        move(I.cancel_backlog, g0, m0, h0, o0)
        move(I.cancel_backlog_since, g1, m1, h1, o1)
      else
        if exists(T.ff_cancel_backlog, pk) then refuse(1) end
        local h0, o0
        if v_grace_until_ms ~= nil then h0, o0 = '', int(v_grace_until_ms) .. uuid(v_flow_id) .. pk end
        local h1, o1
        if v_grace_until_ms == nil then h1, o1 = '', int(v_requested_at_ms) .. uuid(v_flow_id) .. pk end
        local s, k = { 'WYb', v_partition_key, 'vkT', v_flow_id, '3Sy', v_requested_at_ms, 'yND', v_cancellation_policy, 'eJK', 'listing' }, 10
        if v_reason ~= '' then k = k + 2 s[k - 1], s[k] = 'UK4', v_reason end
        if v_grace_until_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'tcB', v_grace_until_ms end
        make(T.ff_cancel_backlog, pk, s)
        if o0 then add(I.cancel_backlog, h0, o0) end
        if o1 then add(I.cancel_backlog_since, h1, o1) end
      end
    end
    wake('cancel_backlog', '', '', a[8])
    return { 1 }
  end,
}
