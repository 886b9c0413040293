"""Schedules: the key and the changes of each plan."""

from __future__ import annotations

from flowfabric.rules.workers import schedules


def test_a_schedule_is_named_by_its_namespace_and_name() -> None:
    for plan in (schedules.add("ns", "s"), schedules.pause("ns", "s"), schedules.resume("ns", "s")):
        assert dict(zip(plan.form.args, plan.values, strict=True)) == {
            "namespace": "ns",
            "name": "s",
        }


def test_a_cursor_moves_only_from_the_value_that_was_read() -> None:
    plan = schedules.move("ns", "s", 1, 2)
    found = dict(zip(plan.form.args, plan.values, strict=True))
    assert found == {"namespace": "ns", "name": "s", "was_ms": 1, "cursor_ms": 2}
