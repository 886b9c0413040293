"""Durable work in plain Python: tasks, the worker that runs them, and the runs one waits for."""
