-- erase_schedule(namespace, name)
return {
  run = function(a)
    local time, b, n = now()
    local pk = word(a[2]) .. word(a[3])
    local r = fetch(T.ff_schedule, pk)
    if not (r) then refuse(0) end
    b, n = r, r
    erase(T.ff_schedule, pk)
    return { 1 }
  end,
}
