-- mark_dispatched(event_id)
local constant_0 = { 'dispatched_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2])
      local r = fetch(T.ff_completion_event, pk)
      if not (r and r.dispatched_at_ms == nil) then refuse(0) end
      local c0 = time
      local g0, m0
      if r.flow_id ~= nil and (r.outcome ~= nil and r.outcome ~= 'resumable') then g0, m0 = '', int(r.committed_at_ms) .. int(r.event_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.dispatched_at_ms ~= c0 then if c0 == nil then j = j + 1 u[j] = 'uIU' else k = k + 2 s[k - 1], s[k] = 'uIU', c0 end end
      note_change(T.ff_completion_event, pk, r, constant_0, { dispatched_at_ms = r.dispatched_at_ms })
      r.dispatched_at_ms = c0
      local h0, o0
      if r.dispatched_at_ms == nil and r.flow_id ~= nil and (r.outcome ~= nil and r.outcome ~= 'resumable') then h0, o0 = '', int(r.committed_at_ms) .. int(r.event_id) .. pk end
      change(T.ff_completion_event, pk, s, u)
      move(I.undispatched, g0, m0, h0, o0)
      n = r
    end
    return { 1 }
  end,
}
