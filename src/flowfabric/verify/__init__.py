"""The invariants, as functions over a dump of a store, for `flowfabric verify` and for tests."""
