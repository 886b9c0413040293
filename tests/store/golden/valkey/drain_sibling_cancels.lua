-- drain_sibling_cancels(partition_key, flow_id, downstream_eid, version)
local constant_0 = { 'cancel_siblings_pending_flag', 'cancel_siblings_pending_members', 'version' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[4])
      local r = fetch(T.ff_edge_group, pk)
      if not (r and same(r.version, a[5])) then refuse(0) end
      local c2 = required(plus(r.version, '1'), 'version')
      local s, k, u, j = {}, 0, {}, 0
      if r.cancel_siblings_pending_flag ~= '0' then j = j + 1 u[j] = 'Qta' end
      if r.cancel_siblings_pending_members ~= '[]' then j = j + 1 u[j] = 'HJO' end
      if r.version ~= c2 then if c2 == '0' then j = j + 1 u[j] = 'zQs' else k = k + 2 s[k - 1], s[k] = 'zQs', c2 end end
      note_change(T.ff_edge_group, pk, r, constant_0, { cancel_siblings_pending_flag = r.cancel_siblings_pending_flag, cancel_siblings_pending_members = r.cancel_siblings_pending_members, version = r.version })
      r.cancel_siblings_pending_flag = '0'
      r.cancel_siblings_pending_members = '[]'
      r.version = c2
      change(T.ff_edge_group, pk, s, u)
      n = r
    end
    do
      local pk = int(n.partition_key) .. uuid(n.flow_id) .. uuid(n.downstream_eid)
      local r = n.partition_key ~= nil and n.flow_id ~= nil and n.downstream_eid ~= nil and fetch(T.ff_pending_cancel_groups, pk)
      if r then
        erase(T.ff_pending_cancel_groups, pk)
      end
    end
    return { 1 }
  end,
}
