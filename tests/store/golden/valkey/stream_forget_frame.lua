-- stream_forget_frame(partition_key, execution_id, attempt_index, ts_ms, seq, now)
return {
  run = function(a)
    local time, b, n = now()
    local pk = int(a[2]) .. uuid(a[3]) .. int(a[4]) .. int(a[5]) .. int(a[6])
    local r = fetch(T.ff_stream_frame, pk)
    if not (r and up_to(r.expires_at_ms, a[7])) then refuse(0) end
    b, n = r, r
    erase(T.ff_stream_frame, pk)
    return { 1 }
  end,
}
