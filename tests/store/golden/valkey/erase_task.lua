-- erase_task(namespace, name)
return {
  run = function(a)
    local b, n = {}, {}
    do
      local pk = word(a[2]) .. word(a[3])
      local r = fetch(T.ff_task, pk)
      if not (r) then refuse(0) end
      b, n = r, r
      put(T.ff_task, pk, false)
    end
    return row_answer(0, {  })
  end,
}
