-- drop_expired_grant(partition_key, execution_id)

DELETE
    FROM ff_claim_grant
    WHERE partition_key = ?
    AND execution_id = ?
    AND expires_at_ms < ?;
