"""The operations: load, decide, commit."""
