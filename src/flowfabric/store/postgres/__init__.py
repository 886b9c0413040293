"""Postgres: one statement per form and batch, coalesced by form, on a few writer connections."""
