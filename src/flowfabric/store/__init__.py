"""Stores of rows. A store knows plans and tables, not the domain."""
