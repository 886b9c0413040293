-- resume_schedule(namespace, name)
local constant_0 = { 'paused', 'cursor_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_schedule, pk)
      if not (r and r.paused == '1') then refuse(0) end
      local c1 = required(time, 'cursor_ms')
      local s, k, u, j = {}, 0, {}, 0
      if r.paused ~= '0' then j = j + 1 u[j] = 'ljr' end
      if r.cursor_ms ~= c1 then k = k + 2 s[k - 1], s[k] = 'G5D', c1 end
      note_change(T.ff_schedule, pk, r, constant_0, { paused = r.paused, cursor_ms = r.cursor_ms })
      r.paused = '0'
      r.cursor_ms = c1
      change(T.ff_schedule, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
