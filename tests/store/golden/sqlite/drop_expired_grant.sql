-- drop_expired_grant(partition_key, execution_id)

SELECT lane_id
    FROM ff_claim_grant
    WHERE partition_key = ?
    AND execution_id = ?
    AND expires_at_ms < ?;

DELETE
    FROM ff_claim_grant
    WHERE partition_key = ?
    AND execution_id = ?;
