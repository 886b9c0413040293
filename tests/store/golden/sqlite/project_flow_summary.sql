-- project_flow_summary(partition_key, flow_id, version, settled_at_ms, members_completed, members_failed, members_cancelled, members_expired, members_skipped, members_active, members_suspended, members_waiting, members_delayed, members_rate_limited, members_waiting_children, total_members, sampled_members, public_flow_state, now)

UPDATE ff_flow_core
    SET settled_at_ms = ?
    WHERE partition_key = ?
    AND flow_id = ?
    AND version = ?;

INSERT INTO ff_flow_summary (partition_key,
    flow_id,
    members_completed,
    members_failed,
    members_cancelled,
    members_expired,
    members_skipped,
    members_active,
    members_suspended,
    members_waiting,
    members_delayed,
    members_rate_limited,
    members_waiting_children,
    total_members,
    sampled_members,
    public_flow_state,
    last_summary_update_at)
    VALUES (?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?,
    ?)
    ON CONFLICT (partition_key,
    flow_id) DO UPDATE
    SET members_completed = ?,
    members_failed = ?,
    members_cancelled = ?,
    members_expired = ?,
    members_skipped = ?,
    members_active = ?,
    members_suspended = ?,
    members_waiting = ?,
    members_delayed = ?,
    members_rate_limited = ?,
    members_waiting_children = ?,
    total_members = ?,
    sampled_members = ?,
    public_flow_state = ?,
    last_summary_update_at = ?;
