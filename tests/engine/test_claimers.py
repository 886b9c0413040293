"""The arguments of a claim are checked once, however often a worker repeats them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from flowfabric.engine.claims.claimer import claimer_of, sweep_plan
from flowfabric.errors import ValidationError
from flowfabric.model.lease import ClaimPolicy

POLICY = ClaimPolicy("worker", "worker-1", 1, 1)


def _policy(**changed: Any) -> ClaimPolicy:
    return structs.replace(POLICY, **changed)


def test_repeated_arguments_are_checked_once() -> None:
    first = claimer_of("lane", ("gpu",), POLICY, 1)
    assert claimer_of("lane", ("gpu",), _policy(), 1) is first
    assert sweep_plan(claimer_of("lane", ("gpu",), _policy(), 1)) is sweep_plan(first)
    assert claimer_of("lane", ["gpu"], POLICY, 1) == first


@pytest.mark.parametrize(
    ("policy", "n", "field"),
    [
        (POLICY, True, "n"),
        (POLICY, 1.0, "n"),
        (_policy(lease_ttl_ms=True), 1, "lease_ttl_ms"),
        (_policy(max_wait_ms=1.0), 1, "max_wait_ms"),
        (_policy(worker_id=["worker"]), 1, "worker_id"),
        (_policy(namespace={}), 1, "namespace"),
        ({"worker_id": "worker"}, 1, "policy"),
    ],
)
def test_an_equal_argument_of_another_type_is_refused(policy: Any, n: Any, field: str) -> None:
    claimer_of("lane", (), POLICY, 1)
    with pytest.raises(ValidationError, match=field):
        claimer_of("lane", (), policy, n)
