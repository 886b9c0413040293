"""How many best-effort frames a stream keeps: two lifetimes' worth at the rate they come in."""

from __future__ import annotations

import math
from typing import NamedTuple

from flowfabric.model.stream import LIVE_ALPHA, LIVE_CEILING, LIVE_FLOOR, BestEffortLive

_ROUNDING = 1e-12
"""A rate that stands for exactly n frames may come out a little above n; that is no reason to keep
one more.
"""


class Knobs(NamedTuple):
    ttl_ms: int
    floor: int
    ceiling: int
    alpha: float

    @property
    def window_s(self) -> float:
        return self.ttl_ms / 1_000 * 2


def sanitised(mode: BestEffortLive) -> Knobs:
    floor = mode.maxlen_floor if mode.maxlen_floor > 0 else LIVE_FLOOR
    ceiling = mode.maxlen_ceiling if mode.maxlen_ceiling > 0 else LIVE_CEILING
    alpha = float(mode.ema_alpha) if 0 < mode.ema_alpha <= 1 else LIVE_ALPHA
    return Knobs(max(mode.ttl_ms, 1), floor, max(ceiling, floor), alpha)


def next_rate(prev_rate: float | None, last_ms: int | None, now_ms: int, knobs: Knobs) -> float:
    """Frames per second, smoothed. The first frame is taken to come at the rate that keeps exactly
    the floor.
    """
    if prev_rate is None or last_ms is None:
        return knobs.floor / knobs.window_s
    instant = 1_000 / max(now_ms - last_ms, 1)
    return knobs.alpha * instant + (1 - knobs.alpha) * prev_rate


def kept(rate: float, knobs: Knobs) -> int:
    wanted = math.ceil(rate * knobs.window_s * (1 - _ROUNDING))
    return min(max(wanted, knobs.floor), knobs.ceiling)
