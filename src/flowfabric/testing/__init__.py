"""What tests need: a clock that only moves when told to."""

from flowfabric.testing.clock import ManualClock

__all__ = ["ManualClock"]
