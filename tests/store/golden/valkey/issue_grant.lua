-- issue_grant(partition_key, execution_id, version, worker_id, grant_ttl_ms, grant_id, kind, worker_instance_id, lane_id, capability_hash, worker_capabilities, route_snapshot_json, admission_summary)
local constant_0 = { 'version', 'last_mutation_at', 'reserved_for', 'reserved_until_ms' }
local constant_1 = { 'grant_id', 'kind', 'worker_id', 'worker_instance_id', 'lane_id', 'capability_hash', 'worker_capabilities', 'route_snapshot_json', 'admission_summary', 'grant_ttl_ms', 'issued_at_ms', 'expires_at_ms' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(time, 'last_mutation_at')
      local c2 = a[5]
      local c3 = plus(time, a[6])
      local g0, m0
      if r.quota_policy_id ~= nil and r.reserved_until_ms ~= nil then g0, m0 = uuid(r.quota_policy_id), int(r.reserved_until_ms) .. uuid(r.execution_id) .. pk end
      local s, k, u, j = {}, 0, {}, 0
      if r.version ~= c0 then if c0 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c0 end end
      if r.last_mutation_at ~= c1 then if c1 == '0' then j = j + 1 u[j] = 'tRj' else k = k + 2 s[k - 1], s[k] = 'tRj', c1 end end
      if r.reserved_for ~= c2 then if c2 == nil then j = j + 1 u[j] = 'una' else k = k + 2 s[k - 1], s[k] = 'una', c2 end end
      if r.reserved_until_ms ~= c3 then if c3 == nil then j = j + 1 u[j] = '2Tv' else k = k + 2 s[k - 1], s[k] = '2Tv', c3 end end
      note_change(T.ff_exec_core, pk, r, constant_0, { version = r.version, last_mutation_at = r.last_mutation_at, reserved_for = r.reserved_for, reserved_until_ms = r.reserved_until_ms })
      r.version = c0
      r.last_mutation_at = c1
      r.reserved_for = c2
      r.reserved_until_ms = c3
      local h0, o0
      if r.quota_policy_id ~= nil and r.reserved_until_ms ~= nil then h0, o0 = uuid(r.quota_policy_id), int(r.reserved_until_ms) .. uuid(r.execution_id) .. pk end
      change(T.ff_exec_core, pk, s, u)
      move(I.reserved, g0, m0, h0, o0)
      n = r
    end
    do
      local v_partition_key = required(n.partition_key, 'partition_key')
      local v_execution_id = required(n.execution_id, 'execution_id')
      local v_grant_id = required(a[7], 'grant_id')
      local v_kind = required(a[8], 'kind')
      local v_worker_id = required(a[5], 'worker_id')
      local v_worker_instance_id = required(a[9], 'worker_instance_id')
      local v_lane_id = required(a[10], 'lane_id')
      local v_capability_hash = a[11]
      local v_worker_capabilities = required(a[12], 'worker_capabilities')
      local v_route_snapshot_json = a[13]
      local v_admission_summary = a[14]
      local v_grant_ttl_ms = required(a[6], 'grant_ttl_ms')
      local v_issued_at_ms = required(time, 'issued_at_ms')
      local v_expires_at_ms = required(plus(time, a[6]), 'expires_at_ms')
      local pk = int(v_partition_key) .. uuid(v_execution_id)
      local r = fetch(T.ff_claim_grant, pk)
      if r then
        local c0 = required(a[7], 'grant_id')
        local c1 = required(a[8], 'kind')
        local c2 = required(a[5], 'worker_id')
        local c3 = required(a[9], 'worker_instance_id')
        local c4 = required(a[10], 'lane_id')
        local c5 = a[11]
        local c6 = required(a[12], 'worker_capabilities')
        local c7 = a[13]
        local c8 = a[14]
        local c9 = required(a[6], 'grant_ttl_ms')
        local c10 = required(time, 'issued_at_ms')
        local c11 = required(plus(time, a[6]), 'expires_at_ms')
        local g0, m0 = '', int(r.expires_at_ms) .. uuid(r.execution_id) .. pk
        local s, k, u, j = {}, 0, {}, 0
        if r.grant_id ~= c0 then k = k + 2 s[k - 1], s[k] = 'JDP', c0 end
        if r.kind ~= c1 then k = k + 2 s[k - 1], s[k] = 'jRq', c1 end
        if r.worker_id ~= c2 then k = k + 2 s[k - 1], s[k] = 'wDj', c2 end
        if r.worker_instance_id ~= c3 then k = k + 2 s[k - 1], s[k] = 'qqT', c3 end
        if r.lane_id ~= c4 then k = k + 2 s[k - 1], s[k] = 'tbW', c4 end
        if r.capability_hash ~= c5 then if c5 == nil then j = j + 1 u[j] = '1EJ' else k = k + 2 s[k - 1], s[k] = '1EJ', c5 end end
        if r.worker_capabilities ~= c6 then if c6 == '[]' then j = j + 1 u[j] = '8vi' else k = k + 2 s[k - 1], s[k] = '8vi', c6 end end
        if r.route_snapshot_json ~= c7 then if c7 == nil then j = j + 1 u[j] = 'UkQ' else k = k + 2 s[k - 1], s[k] = 'UkQ', c7 end end
        if r.admission_summary ~= c8 then if c8 == nil then j = j + 1 u[j] = 'vjk' else k = k + 2 s[k - 1], s[k] = 'vjk', c8 end end
        if r.grant_ttl_ms ~= c9 then k = k + 2 s[k - 1], s[k] = 'y9J', c9 end
        if r.issued_at_ms ~= c10 then k = k + 2 s[k - 1], s[k] = 'jBK', c10 end
        if r.expires_at_ms ~= c11 then k = k + 2 s[k - 1], s[k] = 'tP9', c11 end
        note_change(T.ff_claim_grant, pk, r, constant_1, { grant_id = r.grant_id, kind = r.kind, worker_id = r.worker_id, worker_instance_id = r.worker_instance_id, lane_id = r.lane_id, capability_hash = r.capability_hash, worker_capabilities = r.worker_capabilities, route_snapshot_json = r.route_snapshot_json, admission_summary = r.admission_summary, grant_ttl_ms = r.grant_ttl_ms, issued_at_ms = r.issued_at_ms, expires_at_ms = r.expires_at_ms })
        r.grant_id = c0
        r.kind = c1
        r.worker_id = c2
        r.worker_instance_id = c3
        r.lane_id = c4
        r.capability_hash = c5
        r.worker_capabilities = c6
        r.route_snapshot_json = c7
        r.admission_summary = c8
        r.grant_ttl_ms = c9
        r.issued_at_ms = c10
        r.expires_at_ms = c11
        local h0, o0 = '', int(r.expires_at_ms) .. uuid(r.execution_id) .. pk
        change(T.ff_claim_grant, pk, s, u)
        move(I.grants, g0, m0, h0, o0)
      else
        if exists(T.ff_claim_grant, pk) then refuse(1) end
        local h0, o0 = '', int(v_expires_at_ms) .. uuid(v_execution_id) .. pk
        local s, k = { 'WYb', v_partition_key, '6Pr', v_execution_id, 'JDP', v_grant_id, 'jRq', v_kind, 'wDj', v_worker_id, 'qqT', v_worker_instance_id, 'tbW', v_lane_id, 'y9J', v_grant_ttl_ms, 'jBK', v_issued_at_ms, 'tP9', v_expires_at_ms }, 20
        if v_capability_hash ~= nil then k = k + 2 s[k - 1], s[k] = '1EJ', v_capability_hash end
        if v_worker_capabilities ~= '[]' then k = k + 2 s[k - 1], s[k] = '8vi', v_worker_capabilities end
        if v_route_snapshot_json ~= nil then k = k + 2 s[k - 1], s[k] = 'UkQ', v_route_snapshot_json end
        if v_admission_summary ~= nil then k = k + 2 s[k - 1], s[k] = 'vjk', v_admission_summary end
        make(T.ff_claim_grant, pk, s)
        add(I.grants, h0, o0)
      end
    end
    wake('leased', '', '', n.reserved_until_ms)
    return { 1, n.reserved_until_ms or false }
  end,
}
