-- trim_signal(partition_key, execution_id, signal_id)
return {
  run = function(a)
    local time, b, n = now()
    local pk = int(a[2]) .. uuid(a[3]) .. uuid(a[4])
    local r = fetch(T.ff_signal, pk)
    if not (r) then refuse(0) end
    b, n = r, r
    erase(T.ff_signal, pk)
    return { 1 }
  end,
}
