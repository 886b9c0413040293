-- register_lane(lane_id, registered_by)

INSERT INTO ff_lane_registry (lane_id,
    registered_at_ms,
    registered_by,
    state,
    updated_at_ms)
    VALUES (?,
    ?,
    ?,
    'active',
    ?)
    ON CONFLICT DO NOTHING;
