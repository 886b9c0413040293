-- rotate_api_token(token_id, version, digest, former_digest, former_until_ms, now, details)
local constant_0 = { 'digest', 'former_digest', 'former_until_ms', 'rotated_at_ms', 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_api_token, pk)
      if not (r and same(r.version, a[3]) and r.revoked_at_ms == nil) then refuse(0) end
      local c0 = required(a[4], 'digest')
      local c1 = a[5]
      local c2 = a[6]
      local c3 = a[7]
      local c4 = required(plus(r.version, '1'), 'version')
      local s, k, u, j = {}, 0, {}, 0
      if r.digest ~= c0 then k = k + 2 s[k - 1], s[k] = 'slg', c0 end
      if r.former_digest ~= c1 then if c1 == nil then j = j + 1 u[j] = 'VP6' else k = k + 2 s[k - 1], s[k] = 'VP6', c1 end end
      if r.former_until_ms ~= c2 then if c2 == nil then j = j + 1 u[j] = 'Bs4' else k = k + 2 s[k - 1], s[k] = 'Bs4', c2 end end
      if r.rotated_at_ms ~= c3 then if c3 == nil then j = j + 1 u[j] = 'iKA' else k = k + 2 s[k - 1], s[k] = 'iKA', c3 end end
      if r.version ~= c4 then if c4 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c4 end end
      note_change(T.ff_api_token, pk, r, constant_0, { digest = r.digest, former_digest = r.former_digest, former_until_ms = r.former_until_ms, rotated_at_ms = r.rotated_at_ms, version = r.version })
      r.digest = c0
      r.former_digest = c1
      r.former_until_ms = c2
      r.rotated_at_ms = c3
      r.version = c4
      change(T.ff_api_token, pk, s, u)
      n = r
    end
    do
      local v_event_id = next_number(T.ff_operator_event)
      local v_execution_id = required(a[2], 'execution_id')
      local v_details = a[8]
      local v_occurred_at_ms = required(a[7], 'occurred_at_ms')
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'token_rotated', 'fwj', v_occurred_at_ms }, 8
      if v_details ~= nil then k = k + 2 s[k - 1], s[k] = 'iWx', v_details end
      make(T.ff_operator_event, pk, s)
      add(I.operator_events_of, h0, o0)
    end
    wake('ff_operator_event', '', '', '')
    return { 1 }
  end,
}
