from __future__ import annotations

import pytest

from flowfabric.rules.waits.signals import is_long

from .wait_factory import waitpoint


@pytest.mark.parametrize(
    ("count", "trimmed", "most", "long"),
    [(9, 0, 8, True), (8, 0, 8, False), (17, 8, 8, True), (16, 8, 8, False), (100, 0, 0, False)],
)
def test_a_history_is_worth_trimming_an_eighth_at_a_time(
    count: int, trimmed: int, most: int, long: bool
) -> None:
    assert is_long(waitpoint(signal_count=count, signals_trimmed=trimmed), most) is long
