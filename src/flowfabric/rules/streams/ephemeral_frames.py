"""How many best-effort frames a stream keeps: two lifetimes at the rate of arrival."""

from __future__ import annotations

import math
from typing import NamedTuple

from flowfabric.model.stream import LIVE_ALPHA, LIVE_CEILING, LIVE_FLOOR, BestEffortLive

_ROUNDING = 1e-12
"""A rate for exactly n frames may be computed as slightly more than n."""


class LiveLimits(NamedTuple):
    ttl_ms: int
    floor: int
    ceiling: int
    alpha: float

    @property
    def window_s(self) -> float:
        return self.ttl_ms / 1_000 * 2


def limits_of(mode: BestEffortLive) -> LiveLimits:
    floor = mode.maxlen_floor if mode.maxlen_floor > 0 else LIVE_FLOOR
    ceiling = mode.maxlen_ceiling if mode.maxlen_ceiling > 0 else LIVE_CEILING
    alpha = float(mode.ema_alpha) if 0 < mode.ema_alpha <= 1 else LIVE_ALPHA
    return LiveLimits(max(mode.ttl_ms, 1), floor, max(ceiling, floor), alpha)


def next_rate(
    prev_rate: float | None, last_ms: int | None, now_ms: int, limits: LiveLimits
) -> float:
    """Smoothed frames per second. The first frame has the rate that keeps exactly the floor."""
    if prev_rate is None or last_ms is None:
        return limits.floor / limits.window_s
    instant = 1_000 / max(now_ms - last_ms, 1)
    return limits.alpha * instant + (1 - limits.alpha) * prev_rate


def kept_frames(rate: float, limits: LiveLimits) -> int:
    wanted = math.ceil(rate * limits.window_s * (1 - _ROUNDING))
    return min(max(wanted, limits.floor), limits.ceiling)
