-- forget_quota_entry(quota_policy_id, dimension, admitted_at_ms, execution_id)
return {
  run = function(a)
    local time, b, n = now()
    local pk = uuid(a[2]) .. word(a[3]) .. int(a[4]) .. uuid(a[5])
    local r = fetch(T.ff_quota_window, pk)
    if not (r) then refuse(0) end
    b, n = r, r
    erase(T.ff_quota_window, pk)
    return { 1 }
  end,
}
