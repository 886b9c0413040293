-- rebind_waitpoint(partition_key, waitpoint_id, version, now, suspension_id, required_signal_names, token_kid, token_digest, created_at_ms, expires_at_ms, waitpoint_key, attempt_index, payload_schema)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_waitpoint_pending, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required('active', 'state')
      local c1 = a[5]
      local c2 = a[6]
      local c3 = required(a[7], 'required_signal_names')
      local c4 = required(a[8], 'token_kid')
      local c5 = required(a[9], 'token_digest')
      local c6 = required(a[10], 'created_at_ms')
      local c7 = a[11]
      local c8 = required(a[12], 'waitpoint_key')
      local c9 = required(a[13], 'attempt_index')
      local c10 = a[14]
      local c11 = nil
      local c12 = nil
      local c13 = nil
      local c14 = nil
      local c15 = required(plus(r.version, '1'), 'version')
      w.state = c0
      w.activated_at_ms = c1
      w.suspension_id = c2
      w.required_signal_names = c3
      w.token_kid = c4
      w.token_digest = c5
      w.created_at_ms = c6
      w.expires_at_ms = c7
      w.waitpoint_key = c8
      w.attempt_index = c9
      w.payload_schema = c10
      w.last_signal_at_ms = c11
      w.satisfied_at_ms = c12
      w.closed_at_ms = c13
      w.close_reason = c14
      w.version = c15
      put(T.ff_waitpoint_pending, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
