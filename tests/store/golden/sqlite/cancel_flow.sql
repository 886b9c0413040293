-- cancel_flow(partition_key, flow_id, version, now, raw_fields)

UPDATE ff_flow_core
    SET version = version + 1,
    public_flow_state = 'cancelled',
    terminal_at_ms = coalesce(terminal_at_ms, ?),
    raw_fields = ?,
    settled_at_ms = NULL
    WHERE partition_key = ?
    AND flow_id = ?
    AND version = ?;
