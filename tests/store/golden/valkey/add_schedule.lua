-- add_schedule(namespace, name)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_namespace = required(a[2], 'namespace')
      local v_name = required(a[3], 'name')
      local v_cursor_ms = required(time, 'cursor_ms')
      local pk = word(v_namespace) .. word(v_name)
      if exists(T.ff_schedule, pk) then refuse(0) end
      local s, k = { 'CG9', v_namespace, 'K0W', v_name, 'G5D', v_cursor_ms }, 6
      make(T.ff_schedule, pk, s)
    end
    return { 1 }
  end,
}
