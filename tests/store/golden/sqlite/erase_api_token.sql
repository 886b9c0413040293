-- erase_api_token(token_id, namespace)

DELETE
    FROM ff_api_token
    WHERE token_id = ?
    AND namespace = ?;
