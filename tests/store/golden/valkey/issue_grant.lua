-- issue_grant(partition_key, execution_id, version, worker_id, grant_ttl_ms, grant_id, kind, worker_instance_id, lane_id, capability_hash, worker_capabilities, route_snapshot_json, admission_summary)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_exec_core, pk)
      if not (r and same(r.version, a[4])) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required(plus(r.version, '1'), 'version')
      local c1 = required(now(), 'last_mutation_at')
      local c2 = a[5]
      local c3 = plus(now(), a[6])
      w.version = c0
      w.last_mutation_at = c1
      w.reserved_for = c2
      w.reserved_until_ms = c3
      put(T.ff_exec_core, pk, w)
      n = w
    end
    do
      local row = {
        partition_key = required(n.partition_key, 'partition_key'),
        execution_id = required(n.execution_id, 'execution_id'),
        grant_id = required(a[7], 'grant_id'),
        kind = required(a[8], 'kind'),
        worker_id = required(a[5], 'worker_id'),
        worker_instance_id = required(a[9], 'worker_instance_id'),
        lane_id = required(a[10], 'lane_id'),
        capability_hash = a[11],
        worker_capabilities = required(a[12], 'worker_capabilities'),
        route_snapshot_json = a[13],
        admission_summary = a[14],
        grant_ttl_ms = required(a[6], 'grant_ttl_ms'),
        issued_at_ms = required(now(), 'issued_at_ms'),
        expires_at_ms = required(plus(now(), a[6]), 'expires_at_ms'),
      }
      local pk = int(row.partition_key) .. uuid(row.execution_id)
      local r = fetch(T.ff_claim_grant, pk)
      local w = row
      if r then
        w = copy(r)
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
        local c10 = required(now(), 'issued_at_ms')
        local c11 = required(plus(now(), a[6]), 'expires_at_ms')
        w.grant_id = c0
        w.kind = c1
        w.worker_id = c2
        w.worker_instance_id = c3
        w.lane_id = c4
        w.capability_hash = c5
        w.worker_capabilities = c6
        w.route_snapshot_json = c7
        w.admission_summary = c8
        w.grant_ttl_ms = c9
        w.issued_at_ms = c10
        w.expires_at_ms = c11
        put(T.ff_claim_grant, pk, w)
      else
        insert(T.ff_claim_grant, pk, row, 1)
      end
    end
    do local at = n.reserved_until_ms if at then wake('leased', '', nil, at) end end
    return row_answer(1, { n.reserved_until_ms })
  end,
}
