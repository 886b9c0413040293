"""Ticks of cron lines, above all around clock changes."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.errors import ConfigError
from flowfabric.sdk.schedules import Cron

MINUTE_MS, DAY_MS = 60_000, 86_400_000


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


def ticks(line: str, tz: str, after: str, until: str) -> list[str]:
    found = Cron.of(line, tz, "schedule s").between(ms(after), ms(until), 10_000)
    return [f"{datetime.fromtimestamp(at / 1_000, UTC):%m-%d %H:%M}" for at in found]


@pytest.mark.parametrize(
    ("line", "tz", "after", "until", "expected"),
    [
        # 02:30 is in the gap: the tick is right behind it.
        ("30 2 * * *", "Europe/Paris", "2026-03-28", "2026-03-31",
            ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        ("30 2 * * *", "America/New_York", "2026-03-07", "2026-03-10",
            ["03-07 07:30", "03-08 07:00", "03-09 06:30"]),
        # Several times in the gap are one tick.
        ("0,15,30 2 * * *", "Europe/Paris", "2026-03-29", "2026-03-29T23:00",
            ["03-29 01:00"]),
        # The local time occurs twice: the first one is the tick.
        ("30 2 * * *", "Europe/Paris", "2026-10-24", "2026-10-27",
            ["10-24 00:30", "10-25 00:30", "10-26 01:30"]),
        ("30 1 * * *", "America/New_York", "2026-10-31", "2026-11-03",
            ["10-31 05:30", "11-01 05:30", "11-02 06:30"]),
        # A line that begins with * follows real time.
        ("0 * * * *", "Europe/Paris", "2026-10-24T22:30", "2026-10-25T03:00",
            ["10-24 23:00", "10-25 00:00", "10-25 01:00", "10-25 02:00", "10-25 03:00"]),
        ("*/30 * * * *", "America/New_York", "2026-03-08T06:00", "2026-03-08T08:00",
            ["03-08 06:30", "03-08 07:00", "03-08 07:30", "03-08 08:00"]),
        # Working days in the time zone of the line.
        ("0 9 * * MON-FRI", "Asia/Kolkata", "2026-05-01", "2026-05-05",
            ["05-01 03:30", "05-04 03:30"]),
    ],
)  # fmt: skip
def test_ticks_around_clock_changes(
    line: str, tz: str, after: str, until: str, expected: list[str]
) -> None:
    assert ticks(line, tz, after, until) == expected


@given(
    st.sampled_from(
        [
            "30 2 * * *",
            "15,45 1,2,3 * * *",
            "*/20 * * * *",
            "0 */2 * * *",
            "0 0 * * *",
            "59 23 * * *",
        ]
    ),
    st.sampled_from(["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "UTC"]),
    st.sampled_from(
        ["2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01", "2026-04-05", "2026-10-04"]
    ),
    st.lists(st.integers(1, 3 * 24 * 60), min_size=1, max_size=8),
)
def test_ticks_do_not_depend_on_where_the_search_begins(
    line: str, tz: str, day: str, cuts: list[int]
) -> None:
    """Searched in any intervals, the ticks are those of a single search."""
    cron = Cron.of(line, tz, "schedule s")
    begin = ms(day) - DAY_MS
    edges = sorted({begin, begin + 3 * DAY_MS, *(begin + cut * MINUTE_MS for cut in cuts)})
    pieces = [tick for a, b in pairwise(edges) for tick in cron.between(a, b, 10_000)]
    whole = cron.between(edges[0], edges[-1], 10_000)
    assert pieces == whole
    assert cron.last(edges[0], edges[-1]) == (whole[-1] if whole else None)
    assert cron.following(edges[0]) == whole[0]


def test_search_over_a_long_interval_is_cheap() -> None:
    now = ms("2026-05-01")
    for line, back in (("* * * * *", 0), ("0 0 1 1 *", 120 * DAY_MS), ("0 0 29 2 *", 792 * DAY_MS)):
        assert Cron.of(line, "UTC", "s").last(0, now) == now - back
    assert Cron.of("0 0 29 2 *", "UTC", "s").last(now - DAY_MS, now) is None
    assert Cron.of("0 0 29 2 *", "UTC", "s").following(now) == ms("2028-02-29")


@pytest.mark.parametrize(
    "line",
    ["", "* * * *", "* * * * * *", "61 * * * *", "x * * * *", "0 0 30 2 *", None, "*/0 * * * *"],
)
def test_invalid_cron_line_is_refused(line: object) -> None:
    with pytest.raises(ConfigError, match="schedule nightly: cron: five fields"):
        Cron.of(line, "UTC", "schedule nightly")


@pytest.mark.parametrize("tz", ["", "Europe/Pariss", "../etc/passwd", None, 1, "CET+1x"])
def test_unknown_time_zone_is_refused(tz: object) -> None:
    with pytest.raises(ConfigError, match="schedule nightly: tz: a time zone like Europe/Paris"):
        Cron.of("* * * * *", tz, "schedule nightly")


def test_a_tick_a_year_ahead_is_found() -> None:
    assert Cron.of("0 0 1 1 *", "UTC", "s").following(ms("2026-01-01")) == ms("2027-01-01")
