"""The verbs, pure: a snapshot and a request in, a plan or a refusal out. No clock, no randomness, no I/O."""
