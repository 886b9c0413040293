"""Executions."""
