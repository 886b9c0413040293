-- stamp_token_failure(partition_key, execution_id, now)
local constant_0 = { 'last_hmac_validation_failed_at' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r) then refuse(0) end
      local c0 = a[4]
      local s, k, u, j = {}, 0, {}, 0
      if r.last_hmac_validation_failed_at ~= c0 then if c0 == nil then j = j + 1 u[j] = '0RN' else k = k + 2 s[k - 1], s[k] = '0RN', c0 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { last_hmac_validation_failed_at = r.last_hmac_validation_failed_at })
      r.last_hmac_validation_failed_at = c0
      change(T.ff_exec_core, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
