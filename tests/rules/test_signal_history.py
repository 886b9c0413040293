"""When the history of a waitpoint is trimmed."""

from __future__ import annotations

import pytest

from flowfabric.rules.waits.signals import is_long

from .wait_factory import waitpoint


@pytest.mark.parametrize(
    ("count", "trimmed", "most", "long"),
    [
        (99, 0, 0, False),
        (17, 0, 16, False),
        (18, 0, 16, True),
        (18, 1, 16, False),
        (19, 1, 16, True),
        (1, 0, 1, True),
    ],
)
def test_a_history_is_trimmed_an_eighth_at_a_time(
    count: int, trimmed: int, most: int, long: bool
) -> None:
    assert is_long(waitpoint(signal_count=count, signals_trimmed=trimmed), most) is long
