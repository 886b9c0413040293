-- add_schedule(namespace, name)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local row = {
        namespace = required(a[2], 'namespace'),
        name = required(a[3], 'name'),
        cursor_ms = required(now(), 'cursor_ms'),
        paused = required('0', 'paused'),
      }
      local pk = word(row.namespace) .. word(row.name)
      n = insert(T.ff_schedule, pk, row, 0)
    end
    return row_answer(0, {  })
  end,
}
