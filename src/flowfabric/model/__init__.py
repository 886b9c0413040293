"""Frozen structs: rows, arguments and results."""
