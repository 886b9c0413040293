"""Bulk actions, and the operator actions that they repeat."""
