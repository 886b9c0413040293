-- set_lane_state(lane_id, state)
local constant_0 = { 'state', 'updated_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = word(a[2])
      local r = fetch(T.ff_lane_registry, pk)
      if not (r) then refuse(0) end
      local c0 = required(a[3], 'state')
      local c1 = required(time, 'updated_at_ms')
      local s, k, u, j = {}, 0, {}, 0
      if r.state ~= c0 then if c0 == 'active' then j = j + 1 u[j] = 'X27' else k = k + 2 s[k - 1], s[k] = 'X27', c0 end end
      if r.updated_at_ms ~= c1 then if c1 == '0' then j = j + 1 u[j] = '23j' else k = k + 2 s[k - 1], s[k] = '23j', c1 end end
      note_change(T.ff_lane_registry, pk, r, constant_0, { state = r.state, updated_at_ms = r.updated_at_ms })
      r.state = c0
      r.updated_at_ms = c1
      change(T.ff_lane_registry, pk, s, u)
      n = r
    end
    wake('ready', 's', a[2], '')
    return { 1 }
  end,
}
