"""Rows of a database of the Rust FlowFabric as rows of this one."""
