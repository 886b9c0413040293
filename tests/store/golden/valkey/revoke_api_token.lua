-- revoke_api_token(token_id, version, now, details)
local constant_0 = { 'revoked_at_ms', 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = uuid(a[2])
      local r = fetch(T.ff_api_token, pk)
      if not (r and same(r.version, a[3]) and r.revoked_at_ms == nil) then refuse(0) end
      local c0 = a[4]
      local c1 = required(plus(r.version, '1'), 'version')
      local g0, m0 = '', uuid(r.token_id) .. pk
      local s, k, u, j = {}, 0, {}, 0
      if r.revoked_at_ms ~= c0 then if c0 == nil then j = j + 1 u[j] = 'nxA' else k = k + 2 s[k - 1], s[k] = 'nxA', c0 end end
      if r.version ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c1 end end
      note_change(T.ff_api_token, pk, r, constant_0, { revoked_at_ms = r.revoked_at_ms, version = r.version })
      r.revoked_at_ms = c0
      r.version = c1
      local h0, o0
      if r.revoked_at_ms == nil then h0, o0 = '', uuid(r.token_id) .. pk end
      local h1, o1
      if r.revoked_at_ms ~= nil then h1, o1 = '', int(r.revoked_at_ms) .. uuid(r.token_id) .. pk end
      change(T.ff_api_token, pk, s, u)
      move(I.live_tokens, g0, m0, h0, o0)
      if o1 then add(I.revoked_tokens, h1, o1) end
      n = r
    end
    do
      local v_event_id = next_number(T.ff_operator_event)
      local v_execution_id = required(a[2], 'execution_id')
      local v_details = a[5]
      local v_occurred_at_ms = required(a[4], 'occurred_at_ms')
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'token_revoked', 'fwj', v_occurred_at_ms }, 8
      if v_details ~= nil then k = k + 2 s[k - 1], s[k] = 'iWx', v_details end
      make(T.ff_operator_event, pk, s)
      add(I.operator_events_of, h0, o0)
    end
    wake('ff_operator_event', '', '', '')
    return { 1 }
  end,
}
