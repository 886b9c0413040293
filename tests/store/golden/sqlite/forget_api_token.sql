-- forget_api_token(token_id, version)

DELETE
    FROM ff_api_token
    WHERE token_id = ?
    AND version = ?;
