"""Steps: one record a position, and only the same step may find it there."""

from __future__ import annotations

import pytest

from flowfabric.errors import Conflict, ConflictKind
from flowfabric.model.step import StepRecord
from flowfabric.rules import steps

STORED = StepRecord(3, "build", "step", 0, 1_000, b"1")


def test_the_same_step_finds_what_it_left() -> None:
    assert steps.same(STORED, "build", "step") is STORED


@pytest.mark.parametrize(("name", "kind"), [("test", "step"), ("build", "sleep")])
def test_another_step_at_the_same_place_is_told_what_is_there(name: str, kind: str) -> None:
    with pytest.raises(Conflict, match="position 3 is already step 'build'") as caught:
        steps.same(STORED, name, kind)
    assert caught.value.kind is ConflictKind.STEP_MISMATCH
