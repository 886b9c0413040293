"""For tests: a manual clock, faults on demand, and the fixtures of `flowfabric.testing.plugin`."""

from flowfabric.testing.clock import ManualClock

__all__ = ["ManualClock"]
