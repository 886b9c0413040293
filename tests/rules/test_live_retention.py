from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.model.stream import BestEffortLive
from flowfabric.rules.streams.ephemeral_frames import LiveLimits, kept_frames, limits_of, next_rate

KNOBS = LiveLimits(5_000, 64, 16_384, 0.2)


@pytest.mark.parametrize(
    ("mode", "limits"),
    [
        (BestEffortLive(5_000), (5_000, 64, 16_384, 0.2)),
        (BestEffortLive(0), (1, 64, 16_384, 0.2)),
        (BestEffortLive(2**32 - 1), (2**32 - 1, 64, 16_384, 0.2)),
        (BestEffortLive(9, 1, 2, 1.0), (9, 1, 2, 1.0)),
        (BestEffortLive(9, 0, 0, 0.0), (9, 64, 16_384, 0.2)),
        (BestEffortLive(9, -1, -1, -0.1), (9, 64, 16_384, 0.2)),
        (BestEffortLive(9, 64, 64, 1.0000001), (9, 64, 64, 0.2)),
        (BestEffortLive(9, 100, 10, math.nan), (9, 100, 100, 0.2)),
        (BestEffortLive(9, 20_000, 0, math.inf), (9, 20_000, 20_000, 0.2)),
        (BestEffortLive(9, 0, 10, -math.inf), (9, 64, 64, 0.2)),
        (BestEffortLive(9, ema_alpha=1), (9, 64, 16_384, 1.0)),
        (BestEffortLive(9, ema_alpha=10**400), (9, 64, 16_384, 0.2)),
    ],
)
def test_senseless_knobs_become_the_usual_ones(
    mode: BestEffortLive, limits: tuple[int, int, int, float]
) -> None:
    assert limits_of(mode) == limits


@pytest.mark.parametrize(
    ("prev", "last_ms", "now_ms", "rate"),
    [
        (None, None, 1_000, 6.4),
        (None, 990, 1_000, 6.4),
        (6.4, None, 1_000, 6.4),
        (0.0, 990, 1_000, 20.0),
        (50.0, 900, 1_000, 42.0),
        (10.0, 900, 1_000, 10.0),
        (0.0, 1_000, 1_000, 200.0),
        (0.0, 9_000, 1_000, 200.0),
    ],
)
def test_the_rate_follows_what_comes_in(
    prev: float | None, last_ms: int | None, now_ms: int, rate: float
) -> None:
    assert next_rate(prev, last_ms, now_ms, KNOBS) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("rate", "count"),
    [
        (0.0, 64),
        (6.4, 64),
        (6.41, 65),
        (6.5, 65),
        (10.0, 100),
        (10.01, 101),
        (1_638.4, 16_384),
        (1_638.5, 16_384),
        (1e300, 16_384),
    ],
)
def test_two_lifetimes_are_kept_between_the_floor_and_the_ceiling(rate: float, count: int) -> None:
    assert kept_frames(rate, KNOBS) == count


def test_a_steady_thousand_a_second_reaches_the_ceiling_and_a_pause_leaves_it() -> None:
    rate = next_rate(None, None, 0, KNOBS)
    for now in range(1, 100):
        rate = next_rate(rate, now - 1, now, KNOBS)
    assert (
        kept_frames(rate, KNOBS) < KNOBS.ceiling == kept_frames(rate, KNOBS._replace(ttl_ms=30_000))
    )
    for now in range(10_000, 1_000_000, 10_000):
        rate = next_rate(rate, now - 10_000, now, KNOBS)
    assert kept_frames(rate, KNOBS) == KNOBS.floor


MODES = st.builds(
    BestEffortLive,
    ttl_ms=st.integers(0, 2**32 - 1),
    maxlen_floor=st.one_of(st.integers(-5, 5_000), st.integers(0, 2**31 - 1)),
    maxlen_ceiling=st.one_of(st.integers(-5, 50_000), st.integers(0, 2**31 - 1)),
    ema_alpha=st.floats(-1, 2) | st.sampled_from([math.nan, math.inf]),
)


@given(MODES)
def test_the_first_frame_keeps_exactly_the_floor(mode: BestEffortLive) -> None:
    limits = limits_of(mode)
    assert kept_frames(next_rate(None, None, 0, limits), limits) == limits.floor


def naive(mode: BestEffortLive, times: list[int]) -> tuple[Fraction, Fraction, int]:
    """The formulas in exact numbers: the rate, the wanted length, and its bounds."""
    floor = 64 if mode.maxlen_floor <= 0 else mode.maxlen_floor
    ceiling = 16_384 if mode.maxlen_ceiling <= 0 else mode.maxlen_ceiling
    alpha = (
        Fraction(0.2)
        if math.isnan(mode.ema_alpha) or mode.ema_alpha <= 0 or mode.ema_alpha > 1
        else Fraction(mode.ema_alpha)
    )
    if ceiling < floor:
        ceiling = floor
    ttl_s = Fraction(max(mode.ttl_ms, 1), 1_000)
    rate = Fraction(floor) / (2 * ttl_s)
    for last, now in pairwise(times):
        rate = alpha * Fraction(1_000, max(now - last, 1)) + (1 - alpha) * rate
    wanted = rate * ttl_s * 2
    return rate, wanted, min(max(math.ceil(wanted), floor), ceiling)


@given(MODES, st.lists(st.integers(-50, 5_000), max_size=12))
def test_the_naive_formulas_agree(mode: BestEffortLive, steps: list[int]) -> None:
    """`steps` may be negative: a clock that was set back."""
    times = [1_700_000_000_000]
    for step in steps:
        times.append(times[-1] + step)
    limits = limits_of(mode)
    rate = next_rate(None, None, times[0], limits)
    for last, now in pairwise(times):
        rate = next_rate(rate, last, now, limits)
    exact_rate, wanted, count = naive(mode, times)
    assert rate == pytest.approx(float(exact_rate), rel=1e-9)
    slack = wanted * Fraction(1, 10**9)
    if math.ceil(wanted - slack) == math.ceil(wanted + slack):
        assert kept_frames(rate, limits) == count
    assert limits.floor <= kept_frames(rate, limits) <= limits.ceiling
    assert abs(kept_frames(rate, limits) - count) <= 1 + slack
