"""The `flowfabric` command."""
