"""Model-based tests: an independent specification, a machine that drives the engine beside it, and
planted bugs.
"""
