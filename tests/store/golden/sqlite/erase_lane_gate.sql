-- erase_lane_gate(lane_id, namespace, gate)

DELETE
    FROM ff_lane_gate
    WHERE lane_id = ?
    AND namespace = ?
    AND gate = ?;
