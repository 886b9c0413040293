"""Parking of executions that no live worker can run, and their release."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.worker import Routed, WorkerInfo
from flowfabric.rules.claims import routing

from .factory import IDENT, NOW


def waiting(*required: str, **said: Any) -> Routed:
    row = {"namespace": "default", "lane_id": "default", "blocking_reason": routing.WAITING, **said}
    at = {
        "partition_key": 7,
        "execution_id": IDENT.uuid,
        "instance_tag": None,
        "required_capabilities": required,
    }
    rest = {
        "priority": 0,
        "created_at_ms": NOW,
        "last_transition_at": NOW,
        "version": 3,
        "tags": "{}",
    }
    return Routed(**at, **rest, **row)


def worker(*offered: str, namespace: str = "default") -> WorkerInfo:
    return WorkerInfo(namespace, "w-1", "w", ("default",), offered, NOW, 1_000, NOW + 1_000, NOW)


@pytest.mark.parametrize(
    ("offered", "passed"),
    [
        ((), True),
        (("gpu",), True),
        (("eu",), True),
        (("eu", "gpu"), False),
        (("x", "eu", "gpu"), False),
    ],
)
def test_a_worker_runs_only_executions_whose_capabilities_it_covers(
    offered: tuple[str, ...], passed: bool
) -> None:
    head = waiting("eu", "gpu")
    assert routing.not_covered_by([head, waiting()], offered) == ([head] if passed else [])


@pytest.mark.parametrize(
    ("live", "parked"),
    [
        ([], False),
        ([worker()], True),
        ([worker(namespace="other")], False),
        ([worker("gpu", namespace="other"), worker()], True),
        ([worker("gpu")], True),
        ([worker("gpu"), worker("eu")], True),
        ([worker("gpu", "eu")], False),
    ],
)
def test_an_execution_is_parked_when_no_live_worker_of_its_namespace_covers_it(
    live: list[WorkerInfo], parked: bool
) -> None:
    head = waiting("eu", "gpu")
    assert routing.uncovered([head], live) == ([head] if parked else [])
    assert routing.uncovered([head], live, [("gpu",), ()]) == ([head] if parked else [])
    assert routing.uncovered([head], live, [(), ("x", "gpu", "eu")]) == []


@pytest.mark.parametrize(
    ("live", "said", "free"),
    [
        ([worker("gpu")], {}, True),
        ([worker("eu")], {}, False),
        ([worker("gpu")], {"namespace": "other"}, False),
        ([worker("gpu")], {"blocking_reason": "waiting_for_locality_match"}, False),
    ],
)
def test_one_live_worker_frees_what_it_covers(
    live: list[WorkerInfo], said: dict[str, Any], free: bool
) -> None:
    parked = waiting("gpu", **said)
    assert routing.covered([parked], live) == ([parked] if free else [])
    assert routing.covered_by([parked], "default", live[0].capabilities) == (
        [parked] if free else []
    )


@pytest.mark.parametrize(
    ("said", "of", "free"),
    [
        ({}, "default", True),
        ({"namespace": "other"}, "default", False),
        ({"namespace": "other"}, "other", True),
        ({"namespace": "other"}, None, True),
        ({"lane_id": "other"}, "default", False),
        ({"lane_id": "other"}, None, False),
        ({"blocking_reason": "waiting_for_locality_match"}, "default", False),
    ],
)
def test_a_claiming_worker_counts_as_live(said: dict[str, Any], of: str | None, free: bool) -> None:
    parked = waiting("gpu", **said)
    assert routing.claimable([parked], "default", of, ("gpu", "more")) == ([parked] if free else [])


def test_parked_executions_without_requirements_stay_parked() -> None:
    assert routing.claimable([waiting()], "default", "default", ("gpu",)) == []
    assert routing.claimable([waiting("gpu")], "default", "default", ()) == []


def test_a_plan_names_the_version_that_was_read() -> None:
    for plan in (routing.park(waiting("gpu"), NOW), routing.release(waiting("gpu"), NOW)):
        assert dict(zip(plan.form.args, plan.values, strict=True))["version"] == 3
