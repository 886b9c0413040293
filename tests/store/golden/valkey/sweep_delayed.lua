-- sweep_delayed()
return {
  sweep = function(a, limit)
    local picked, b, n = {}, {}, {}
    if limit <= 0 then return {} end
    local upto = now()
    if upto == nil then return {} end
    each_row(I.delayed, '', nil, int(upto), false, function(pk, r)
      if same(r.eligibility_state, 'not_eligible_until_time') then picked[#picked + 1] = pk end
      return #picked >= limit
    end)
    local answers = {}
    for at, pk in ipairs(picked) do
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.eligibility_state, 'not_eligible_until_time')) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(now(), 'last_mutation_at')
      local c2 = required(now(), 'last_transition_at')
      local c3 = required('runnable', 'lifecycle_phase')
      local c4 = required('unowned', 'ownership_state')
      local c5 = required('eligible_now', 'eligibility_state')
      local c6 = required('waiting_for_worker', 'blocking_reason')
      local c7 = required('', 'blocking_detail')
      local c8 = required('none', 'terminal_outcome')
      local c9 = required('waiting', 'public_state')
      local c10 = nil
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
      w.delay_until_ms = c10
      put(T.ff_exec_core, pk, w)
      n = w
      wake('ready', 's', n.lane_id, '')
      answers[at] = row_answer(2, { n.partition_key, n.execution_id })
    end
    return answers
  end,
}
