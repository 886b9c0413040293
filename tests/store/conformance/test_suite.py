"""The conformance suite on every store of the package."""

from __future__ import annotations

from flowfabric.testing.conformance import CASES

# coroutine functions run on the event loop of the connections to Postgres: see tests/conftest.py
globals().update(CASES)
