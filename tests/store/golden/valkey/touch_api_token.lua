-- touch_api_token(token_id, before)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_api_token, pk)
      if not (r and (r.last_used_at_ms == nil or up_to(r.last_used_at_ms, a[3]))) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = now()
      w.last_used_at_ms = c0
      put(T.ff_api_token, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
