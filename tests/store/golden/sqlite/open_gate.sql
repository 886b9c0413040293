-- open_gate(lane_id, namespace, gate, quota_policy_id)

INSERT INTO ff_lane_gate (lane_id,
    namespace,
    gate,
    quota_policy_id)
    VALUES (?,
    ?,
    ?,
    ?)
    ON CONFLICT DO NOTHING;
