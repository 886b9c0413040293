-- leave_cancel_pages(partition_key, flow_id)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = int(a[2]) .. uuid(a[3])
      local r = fetch(T.ff_cancel_backlog, pk)
      if not (r and same(r.status, 'listing')) then refuse(0) end
      b = r
      local w
      w = copy(r)
      local c0 = required('pending', 'status')
      w.status = c0
      put(T.ff_cancel_backlog, pk, w)
      n = w
    end
    return row_answer(0, {  })
  end,
}
