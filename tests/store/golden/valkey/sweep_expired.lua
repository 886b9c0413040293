-- sweep_expired()
return {
  sweep = function(a, limit)
    local picked, b, n = {}, {}, {}
    if limit <= 0 then return {} end
    local upto = now()
    if upto == nil then return {} end
    each_row(I.leased, '', nil, int(upto), false, function(pk, r)
      if same(r.ownership_state, 'leased') and up_to(r.lease_expires_at_ms, now()) then picked[#picked + 1] = pk end
      return #picked >= limit
    end)
    local answers = {}
    for at, pk in ipairs(picked) do
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.ownership_state, 'leased') and up_to(r.lease_expires_at_ms, now())) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(now(), 'last_mutation_at')
      local c2 = required(now(), 'last_transition_at')
      local c3 = required('active', 'lifecycle_phase')
      local c4 = required('lease_expired_reclaimable', 'ownership_state')
      local c5 = required('not_applicable', 'eligibility_state')
      local c6 = required('waiting_for_worker', 'blocking_reason')
      local c7 = required('lease expired, awaiting reclaim', 'blocking_detail')
      local c8 = required('none', 'terminal_outcome')
      local c9 = required('active', 'public_state')
      local c10 = required('attempt_interrupted', 'attempt_state')
      local c11 = now()
      local c12 = b.lease_epoch
      local c13 = 'lease_expired'
      local c14 = nil
      local c15 = b.attempt_timeout_ms
      w.version = c0
      w.last_mutation_at = c1
      w.last_transition_at = c2
      w.lifecycle_phase = c3
      w.ownership_state = c4
      w.eligibility_state = c5
      w.blocking_reason = c6
      w.blocking_detail = c7
      w.terminal_outcome = c8
      w.public_state = c9
      w.attempt_state = c10
      w.lease_expired_at = c11
      w.expired_epoch = c12
      w.interrupt_cause = c13
      w.attempt_timeout_at_ms = c14
      w.attempt_timeout_remaining_ms = c15
      put(T.ff_exec_core, pk, w)
      n = w
      do
        local row = {
          event_id = next_number(T.ff_lease_event),
          execution_id = required(n.execution_id, 'execution_id'),
          lease_id = n.current_lease_id,
          lease_epoch = n.lease_epoch,
          worker_instance_id = n.current_worker_instance_id,
          event_type = required('expired', 'event_type'),
          occurred_at_ms = required(now(), 'occurred_at_ms'),
          partition_key = required(n.partition_key, 'partition_key'),
          namespace = n.namespace,
          instance_tag = n.instance_tag,
        }
        local pk = int(row.event_id)
        insert(T.ff_lease_event, pk, row, 1)
      end
      wake('ff_lease_event', '', nil, '')
      do local at = n.lease_expires_at_ms if at then wake('leased', '', nil, at) end end
      answers[at] = row_answer(2, { n.partition_key, n.execution_id })
    end
    return answers
  end,
}
