"""Background loops. Every step is idempotent, so several processes may run them."""
