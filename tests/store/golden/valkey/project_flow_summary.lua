-- project_flow_summary(partition_key, flow_id, version, settled_at_ms, members_completed, members_failed, members_cancelled, members_expired, members_skipped, members_active, members_suspended, members_waiting, members_delayed, members_rate_limited, members_waiting_children, total_members, sampled_members, public_flow_state, now)
local constant_0 = { 'settled_at_ms' }
local constant_1 = { 'members_completed', 'members_failed', 'members_cancelled', 'members_expired', 'members_skipped', 'members_active', 'members_suspended', 'members_waiting', 'members_delayed', 'members_rate_limited', 'members_waiting_children', 'total_members', 'sampled_members', 'public_flow_state', 'last_summary_update_at' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_flow_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = a[5]
      local g0, m0
      if r.settled_at_ms == nil then g0, m0 = '', int(r.created_at_ms) .. uuid(r.flow_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.settled_at_ms ~= c0 then if c0 == nil then j = j + 1 u[j] = 'XsL' else k = k + 2 s[k - 1], s[k] = 'XsL', c0 end end
      note_change(T.ff_flow_core, pk, r, constant_0, { settled_at_ms = r.settled_at_ms })
      r.settled_at_ms = c0
      local h0, o0
      if r.settled_at_ms == nil then h0, o0 = '', int(r.created_at_ms) .. uuid(r.flow_id) .. pk end
      change(T.ff_flow_core, pk, s, u)
      move(I.unsettled_flows, g0, m0, h0, o0)
      n = r
    end
    do
      local v_partition_key = required(a[2], 'partition_key')
      local v_flow_id = required(a[3], 'flow_id')
      local v_total_members = required(a[17], 'total_members')
      local v_sampled_members = required(a[18], 'sampled_members')
      local v_members_completed = required(a[6], 'members_completed')
      local v_members_failed = required(a[7], 'members_failed')
      local v_members_cancelled = required(a[8], 'members_cancelled')
      local v_members_expired = required(a[9], 'members_expired')
      local v_members_skipped = required(a[10], 'members_skipped')
      local v_members_active = required(a[11], 'members_active')
      local v_members_suspended = required(a[12], 'members_suspended')
      local v_members_waiting = required(a[13], 'members_waiting')
      local v_members_delayed = required(a[14], 'members_delayed')
      local v_members_rate_limited = required(a[15], 'members_rate_limited')
      local v_members_waiting_children = required(a[16], 'members_waiting_children')
      local v_public_flow_state = required(a[19], 'public_flow_state')
      local v_last_summary_update_at = required(a[20], 'last_summary_update_at')
      local pk = int(v_partition_key) .. uuid(v_flow_id)
      local r = fetch(T.ff_flow_summary, pk)
      if r then
        local c0 = required(a[6], 'members_completed')
        local c1 = required(a[7], 'members_failed')
        local c2 = required(a[8], 'members_cancelled')
        local c3 = required(a[9], 'members_expired')
        local c4 = required(a[10], 'members_skipped')
        local c5 = required(a[11], 'members_active')
        local c6 = required(a[12], 'members_suspended')
        local c7 = required(a[13], 'members_waiting')
        local c8 = required(a[14], 'members_delayed')
        local c9 = required(a[15], 'members_rate_limited')
        local c10 = required(a[16], 'members_waiting_children')
        local c11 = required(a[17], 'total_members')
        local c12 = required(a[18], 'sampled_members')
        local c13 = required(a[19], 'public_flow_state')
        local c14 = required(a[20], 'last_summary_update_at')
        local s, k, u, j = {}, 0, {}, 0
        if r.members_completed ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'GGT' else k = k + 2 s[k - 1], s[k] = 'GGT', c0 end end
        if r.members_failed ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'fvM' else k = k + 2 s[k - 1], s[k] = 'fvM', c1 end end
        if r.members_cancelled ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'HAO' else k = k + 2 s[k - 1], s[k] = 'HAO', c2 end end
        if r.members_expired ~= c3 then if c3 == '0' then j = j + 1 u[j] = 'Vtd' else k = k + 2 s[k - 1], s[k] = 'Vtd', c3 end end
        if r.members_skipped ~= c4 then if c4 == '0' then j = j + 1 u[j] = 'MZD' else k = k + 2 s[k - 1], s[k] = 'MZD', c4 end end
        if r.members_active ~= c5 then if c5 == '0' then j = j + 1 u[j] = 'woH' else k = k + 2 s[k - 1], s[k] = 'woH', c5 end end
        if r.members_suspended ~= c6 then if c6 == '0' then j = j + 1 u[j] = 'XUo' else k = k + 2 s[k - 1], s[k] = 'XUo', c6 end end
        if r.members_waiting ~= c7 then if c7 == '0' then j = j + 1 u[j] = 'aQH' else k = k + 2 s[k - 1], s[k] = 'aQH', c7 end end
        if r.members_delayed ~= c8 then if c8 == '0' then j = j + 1 u[j] = 'BBz' else k = k + 2 s[k - 1], s[k] = 'BBz', c8 end end
        if r.members_rate_limited ~= c9 then if c9 == '0' then j = j + 1 u[j] = 'EXF' else k = k + 2 s[k - 1], s[k] = 'EXF', c9 end end
        if r.members_waiting_children ~= c10 then if c10 == '0' then j = j + 1 u[j] = '1DO' else k = k + 2 s[k - 1], s[k] = '1DO', c10 end end
        if r.total_members ~= c11 then if c11 == '0' then j = j + 1 u[j] = 'RYO' else k = k + 2 s[k - 1], s[k] = 'RYO', c11 end end
        if r.sampled_members ~= c12 then if c12 == '0' then j = j + 1 u[j] = 'Nyd' else k = k + 2 s[k - 1], s[k] = 'Nyd', c12 end end
        if r.public_flow_state ~= c13 then k = k + 2 s[k - 1], s[k] = 'isk', c13 end
        if r.last_summary_update_at ~= c14 then k = k + 2 s[k - 1], s[k] = 'Ucu', c14 end
        note_change(T.ff_flow_summary, pk, r, constant_1, { members_completed = r.members_completed, members_failed = r.members_failed, members_cancelled = r.members_cancelled, members_expired = r.members_expired, members_skipped = r.members_skipped, members_active = r.members_active, members_suspended = r.members_suspended, members_waiting = r.members_waiting, members_delayed = r.members_delayed, members_rate_limited = r.members_rate_limited, members_waiting_children = r.members_waiting_children, total_members = r.total_members, sampled_members = r.sampled_members, public_flow_state = r.public_flow_state, last_summary_update_at = r.last_summary_update_at })
        r.members_completed = c0
        r.members_failed = c1
        r.members_cancelled = c2
        r.members_expired = c3
        r.members_skipped = c4
        r.members_active = c5
        r.members_suspended = c6
        r.members_waiting = c7
        r.members_delayed = c8
        r.members_rate_limited = c9
        r.members_waiting_children = c10
        r.total_members = c11
        r.sampled_members = c12
        r.public_flow_state = c13
        r.last_summary_update_at = c14
        change(T.ff_flow_summary, pk, s, u)
      else
        if exists(T.ff_flow_summary, pk) then refuse(1) end
        local s, k = { 'WYb', v_partition_key, 'vkT', v_flow_id, 'isk', v_public_flow_state, 'Ucu', v_last_summary_update_at }, 8
        if v_total_members ~= '0' then k = k + 2 s[k - 1], s[k] = 'RYO', v_total_members end
        if v_sampled_members ~= '0' then k = k + 2 s[k - 1], s[k] = 'Nyd', v_sampled_members end
        if v_members_completed ~= '0' then k = k + 2 s[k - 1], s[k] = 'GGT', v_members_completed end
        if v_members_failed ~= '0' then k = k + 2 s[k - 1], s[k] = 'fvM', v_members_failed end
        if v_members_cancelled ~= '0' then k = k + 2 s[k - 1], s[k] = 'HAO', v_members_cancelled end
        if v_members_expired ~= '0' then k = k + 2 s[k - 1], s[k] = 'Vtd', v_members_expired end
        if v_members_skipped ~= '0' then k = k + 2 s[k - 1], s[k] = 'MZD', v_members_skipped end
        if v_members_active ~= '0' then k = k + 2 s[k - 1], s[k] = 'woH', v_members_active end
        if v_members_suspended ~= '0' then k = k + 2 s[k - 1], s[k] = 'XUo', v_members_suspended end
        if v_members_waiting ~= '0' then k = k + 2 s[k - 1], s[k] = 'aQH', v_members_waiting end
        if v_members_delayed ~= '0' then k = k + 2 s[k - 1], s[k] = 'BBz', v_members_delayed end
        if v_members_rate_limited ~= '0' then k = k + 2 s[k - 1], s[k] = 'EXF', v_members_rate_limited end
        if v_members_waiting_children ~= '0' then k = k + 2 s[k - 1], s[k] = '1DO', v_members_waiting_children end
        make(T.ff_flow_summary, pk, s)
      end
    end
    return { 1 }
  end,
}
