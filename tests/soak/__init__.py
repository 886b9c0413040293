"""A mixed load for many minutes, with faults: invariants, leaks and latency."""
