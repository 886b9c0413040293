-- see_task(namespace, name, version, declared_at_ms)
local constant_0 = { 'declared_at_ms', 'last_seen_ms', 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_task, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = required(a[5], 'declared_at_ms')
      local c1 = required(time, 'last_seen_ms')
      local c2 = required(plus(r.version, '1'), 'version')
      local s, k, u, j = {}, 0, {}, 0
      if r.declared_at_ms ~= c0 then k = k + 2 s[k - 1], s[k] = 'emh', c0 end
      if r.last_seen_ms ~= c1 then k = k + 2 s[k - 1], s[k] = 'lE6', c1 end
      if r.version ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c2 end end
      note_change(T.ff_task, pk, r, constant_0, { declared_at_ms = r.declared_at_ms, last_seen_ms = r.last_seen_ms, version = r.version })
      r.declared_at_ms = c0
      r.last_seen_ms = c1
      r.version = c2
      change(T.ff_task, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
