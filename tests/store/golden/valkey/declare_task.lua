-- declare_task(namespace, name, fingerprint, task_version, quota_policy_id, head, declaration, declared_at_ms)
return {
  run = function(a)
    local time, b, n = now()
    do
      local v_namespace = required(a[2], 'namespace')
      local v_name = required(a[3], 'name')
      local v_fingerprint = required(a[4], 'fingerprint')
      local v_task_version = required(a[5], 'task_version')
      local v_quota_policy_id = a[6]
      local v_declared_at_ms = required(a[9], 'declared_at_ms')
      local v_registered_at_ms = required(time, 'registered_at_ms')
      local v_changed_at_ms = required(time, 'changed_at_ms')
      local v_last_seen_ms = required(time, 'last_seen_ms')
      local v_head = required(a[7], 'head')
      local v_declaration = required(a[8], 'declaration')
      local pk = word(v_namespace) .. word(v_name)
      if exists(T.ff_task, pk) then refuse(0) end
      local s, k = { 'CG9', v_namespace, 'K0W', v_name, 'GsO', v_fingerprint, 'emh', v_declared_at_ms, '09o', v_registered_at_ms, '83r', v_changed_at_ms, 'lE6', v_last_seen_ms, 'cc8', v_head, '01j', v_declaration }, 18
      if v_task_version ~= '0' then k = k + 2 s[k - 1], s[k] = 'fd7', v_task_version end
      if v_quota_policy_id ~= nil then k = k + 2 s[k - 1], s[k] = 's1f', v_quota_policy_id end
      make(T.ff_task, pk, s)
    end
    return { 1 }
  end,
}
