-- move_schedule(namespace, name, was_ms, cursor_ms)
local constant_0 = { 'cursor_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_schedule, pk)
      if not (r and same(r.cursor_ms, a[4])) then refuse(0) end
      local c0 = required(a[5], 'cursor_ms')
      local s, k, u, j = {}, 0, {}, 0
      if r.cursor_ms ~= c0 then k = k + 2 s[k - 1], s[k] = 'G5D', c0 end
      note_change(T.ff_schedule, pk, r, constant_0, { cursor_ms = r.cursor_ms })
      r.cursor_ms = c0
      change(T.ff_schedule, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
