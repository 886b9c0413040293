-- release_blocked(partition_key, execution_id, version, eligibility_state, blocking_reason, public_state, lane_id, delayed_until_ms)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(now(), 'last_mutation_at')
      local c2 = required(now(), 'last_transition_at')
      local c3 = required(a[5], 'eligibility_state')
      local c4 = required(a[6], 'blocking_reason')
      local c5 = required(a[7], 'public_state')
      local c6 = required('unowned', 'ownership_state')
      local c7 = required('', 'blocking_detail')
      w.version = c0
      w.last_mutation_at = c1
      w.last_transition_at = c2
      w.eligibility_state = c3
      w.blocking_reason = c4
      w.public_state = c5
      w.ownership_state = c6
      w.blocking_detail = c7
      put(T.ff_exec_core, pk, w)
      n = w
    end
    wake('ready', 's', a[8], '')
    do local at = a[9] if at then wake('delayed', '', nil, at) end end
    return row_answer(0, {  })
  end,
}
