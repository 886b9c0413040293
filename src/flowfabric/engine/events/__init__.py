"""Event subscriptions."""
