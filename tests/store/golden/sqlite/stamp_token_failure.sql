-- stamp_token_failure(partition_key, execution_id, now)

UPDATE ff_exec_core
    SET last_hmac_validation_failed_at = ?
    WHERE partition_key = ?
    AND execution_id = ?;
