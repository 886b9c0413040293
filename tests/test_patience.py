"""Deadlines of tests follow the speed of the machine."""

from __future__ import annotations

import pytest

from tests import patience


def test_an_allowance_passes_more_slowly_on_a_slow_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, slow = 100.0, 1.0
    monkeypatch.setattr(patience.time, "monotonic", lambda: now)
    monkeypatch.setattr(patience, "slowness", lambda: slow)
    allowed = patience.Allowance(10.0)
    now += 4
    assert allowed.left_s() == 6.0
    slow = 3.0
    now += 15
    assert allowed.left_s() == 1.0 and not allowed.is_spent
    now += 4
    assert allowed.is_spent
