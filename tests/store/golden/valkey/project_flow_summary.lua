-- project_flow_summary(partition_key, flow_id, version, settled_at_ms, members_completed, members_failed, members_cancelled, members_expired, members_skipped, members_active, members_suspended, members_waiting, members_delayed, members_rate_limited, members_waiting_children, total_members, sampled_members, public_flow_state, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_flow_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = a[5]
      w.settled_at_ms = c0
      put(T.ff_flow_core, pk, w)
      n = w
    end
    do
      local row = {
        partition_key = required(a[2], 'partition_key'),
        flow_id = required(a[3], 'flow_id'),
        total_members = required(a[17], 'total_members'),
        sampled_members = required(a[18], 'sampled_members'),
        members_completed = required(a[6], 'members_completed'),
        members_failed = required(a[7], 'members_failed'),
        members_cancelled = required(a[8], 'members_cancelled'),
        members_expired = required(a[9], 'members_expired'),
        members_skipped = required(a[10], 'members_skipped'),
        members_active = required(a[11], 'members_active'),
        members_suspended = required(a[12], 'members_suspended'),
        members_waiting = required(a[13], 'members_waiting'),
        members_delayed = required(a[14], 'members_delayed'),
        members_rate_limited = required(a[15], 'members_rate_limited'),
        members_waiting_children = required(a[16], 'members_waiting_children'),
        public_flow_state = required(a[19], 'public_flow_state'),
        last_summary_update_at = required(a[20], 'last_summary_update_at'),
      }
      local pk = int(row.partition_key) .. uuid(row.flow_id)
      local r = fetch(T.ff_flow_summary, pk)
      local w = row
      if r then
        w = copy(r)
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
        w.members_completed = c0
        w.members_failed = c1
        w.members_cancelled = c2
        w.members_expired = c3
        w.members_skipped = c4
        w.members_active = c5
        w.members_suspended = c6
        w.members_waiting = c7
        w.members_delayed = c8
        w.members_rate_limited = c9
        w.members_waiting_children = c10
        w.total_members = c11
        w.sampled_members = c12
        w.public_flow_state = c13
        w.last_summary_update_at = c14
        put(T.ff_flow_summary, pk, w)
      else
        insert(T.ff_flow_summary, pk, row, 1)
      end
    end
    return row_answer(0, {  })
  end,
}
