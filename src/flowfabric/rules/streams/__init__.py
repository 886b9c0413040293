"""Output streams."""
