-- pause_schedule(namespace, name)
local constant_0 = { 'paused' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_schedule, pk)
      if not (r and r.paused == '0') then refuse(0) end
      local s, k, u, j = {}, 0, {}, 0
      if r.paused ~= '1' then k = k + 2 s[k - 1], s[k] = 'ljr', '1' end
      note_change(T.ff_schedule, pk, r, constant_0, { paused = r.paused })
      r.paused = '1'
      change(T.ff_schedule, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
