"""Forms and tables as SQL text."""
