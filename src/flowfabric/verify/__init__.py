"""The invariants, as functions over a dump of a store: the same code in production, in the model tests and after chaos."""
