"""What tests need: clocks that move when told to, and faults on demand. The fixtures are in `flowfabric.testing.plugin`."""

from flowfabric.testing.clock import ManualClock

__all__ = ["ManualClock"]
