"""Integers as HTTP clients send them, clamped to the engine's smaller range.

Clients send the largest representable number for "unlimited", and times of any clock.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from flowfabric.engine.validation import MAX_TIMESTAMP_MS

MAX_I64 = 2**63 - 1
I32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
I64 = Annotated[int, Meta(ge=-(2**63), le=MAX_I64)]
U16 = Annotated[int, Meta(ge=0, le=2**16 - 1)]
U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
U64 = Annotated[int, Meta(ge=0)]
"""msgspec supports no bound above 63 bits."""
Time = I64


def clamp(number: int, most: int = MAX_I64) -> int:
    return min(number, most)


def clamp_time(time_ms: int | None) -> int | None:
    return None if time_ms is None else min(max(time_ms, 0), MAX_TIMESTAMP_MS)
