"""Background work, one loop a file, all of one shape. Every step is idempotent, so two processes may run them."""
