-- leave_cancel_pages(partition_key, flow_id)
local constant_0 = { 'status' }
return {
  run = function(a)
    local time, b, n = now()
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_cancel_backlog, pk)
      if not (r and r.status == 'listing') then refuse(0) end
      local s, k, u, j = {}, 0, {}, 0
      if r.status ~= 'pending' then j = j + 1 u[j] = 'eJK' end
      note_change(T.ff_cancel_backlog, pk, r, constant_0, { status = r.status })
      r.status = 'pending'
      change(T.ff_cancel_backlog, pk, s, u)
      n = r
    end
    return { 1 }
  end,
}
