"""A mixed load for many minutes, with faults: the invariants hold, nothing leaks, nothing slows down."""
