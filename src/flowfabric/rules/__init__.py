"""Operations as pure functions: a snapshot and a request in, a plan, an answer or an error out."""
