"""Budgets and quotas."""
