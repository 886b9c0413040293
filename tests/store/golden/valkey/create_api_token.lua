-- create_api_token(token_id, name, digest, roles, namespace, lanes, created_by, expires_at_ms, now, details)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_token_id = required(a[2], 'token_id')
      local v_name = required(a[3], 'name')
      local v_digest = required(a[4], 'digest')
      local v_roles = required(a[5], 'roles')
      local v_namespace = a[6]
      local v_lanes = a[7]
      local v_created_at_ms = required(a[10], 'created_at_ms')
      local v_created_by = required(a[8], 'created_by')
      local v_expires_at_ms = a[9]
      local pk = uuid(v_token_id)
      if exists(T.ff_api_token, pk) then refuse(0) end
      local h0, o0 = '', uuid(v_token_id) .. pk
      local s, k = { 'J60', v_token_id, 'K0W', v_name, 'slg', v_digest, '7Q4', v_roles, 'yVc', v_created_at_ms }, 10
      if v_namespace ~= nil then k = k + 2 s[k - 1], s[k] = 'CG9', v_namespace end
      if v_lanes ~= nil then k = k + 2 s[k - 1], s[k] = 'zBw', v_lanes end
      if v_created_by ~= '' then k = k + 2 s[k - 1], s[k] = 'kNV', v_created_by end
      if v_expires_at_ms ~= nil then k = k + 2 s[k - 1], s[k] = 'tP9', v_expires_at_ms end
      make(T.ff_api_token, pk, s)
      add(I.live_tokens, h0, o0)
    end
    do
      local v_event_id = next_number(T.ff_operator_event)
      local v_execution_id = required(a[2], 'execution_id')
      local v_details = a[11]
      local v_occurred_at_ms = required(a[10], 'occurred_at_ms')
      local pk = int(v_event_id)
      local h0, o0 = uuid(v_execution_id), int(v_event_id) .. pk
      local s, k = { 'jmR', v_event_id, '6Pr', v_execution_id, 'clW', 'token_created', 'fwj', v_occurred_at_ms }, 8
      if v_details ~= nil then k = k + 2 s[k - 1], s[k] = 'iWx', v_details end
      make(T.ff_operator_event, pk, s)
      add(I.operator_events_of, h0, o0)
    end
    wake('ff_operator_event', '', '', '')
    return { 1 }
  end,
}
