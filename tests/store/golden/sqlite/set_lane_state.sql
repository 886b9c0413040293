-- set_lane_state(lane_id, state)

UPDATE ff_lane_registry
    SET state = ?,
    updated_at_ms = ?
    WHERE lane_id = ?;
