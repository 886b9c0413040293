-- stamp_token_failure(partition_key, execution_id, now)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = a[4]
      w.last_hmac_validation_failed_at = c0
      put(T.ff_exec_core, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
