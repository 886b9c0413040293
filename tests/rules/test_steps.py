"""Steps: one record per position, returned only to the same step."""

from __future__ import annotations

import pytest

from flowfabric.errors import Conflict, ConflictKind
from flowfabric.model.step import StepRecord
from flowfabric.rules.workers import steps

from .factory import execution, handle

STORED = StepRecord(3, "build", "step", 0, 1_000, b"1")


def test_the_same_step_returns_the_stored_one() -> None:
    assert steps.same(STORED, "build", "step") is STORED


@pytest.mark.parametrize(("name", "kind"), [("test", "step"), ("build", "sleep")])
def test_another_step_at_the_same_position_is_a_mismatch(name: str, kind: str) -> None:
    with pytest.raises(Conflict, match="position 3 is already step 'build'") as caught:
        steps.same(STORED, name, kind)
    assert caught.value.kind is ConflictKind.STEP_MISMATCH


def test_a_record_is_made_under_the_lease_of_the_handle() -> None:
    holder = handle(execution("RUNNING"))
    plan = steps.record(holder, 3, "build", "step", b"1")
    given = dict(zip(plan.form.args, plan.values, strict=True))
    assert plan.form is steps.RECORD
    assert (given["position"], given["name"], given["kind"], given["value"]) == (
        3,
        "build",
        "step",
        b"1",
    )
    assert (given["lease_epoch"], given["lease_id"], given["attempt_index"]) == (
        holder.lease_epoch,
        holder.lease_id,
        holder.attempt_index,
    )
