from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.execution import Execution
from flowfabric.rules.claims import claims
from flowfabric.rules.decision import Decision
from flowfabric.rules.states import VECTORS

from .checks import check_lease
from .factory import (
    NEW_ATTEMPT_ID,
    NEW_LEASE_ID,
    TTL,
    applied,
    attempt,
    execution,
    grant,
    refusal,
    snapshot,
)

NEW = {"lease_id": NEW_LEASE_ID, "attempt_id": NEW_ATTEMPT_ID}
READY = execution()


def taken(of: Execution | None, lane_id: str = "default", **around: Any) -> Decision:
    return claims.issue_grant_and_claim(snapshot(of, **around), lane_id, TTL, **NEW)


@pytest.mark.parametrize(
    ("of", "around", "code"),
    [
        (None, {}, "execution_not_found"),
        (execution("RUNNING"), {"lane_id": "another"}, "invalid_input"),
        (execution("RUNNING"), {"grant": grant()}, "lease_conflict"),
        (execution("LOST"), {}, "lease_conflict"),
        (execution("SUSPENDED"), {"grant": grant()}, "execution_not_eligible"),
        (execution("ENDED"), {}, "execution_not_eligible"),
        (execution(attempt_state="running_attempt"), {"grant": grant()}, "active_attempt_exists"),
        (READY, {"grant": grant()}, "grant_already_exists"),
        (execution("DELAYED"), {"grant": grant()}, "grant_already_exists"),
        *[
            (execution(name), {}, "execution_not_eligible")
            for name in ("DELAYED", "DEPS", "BUDGET", "QUOTA", "ROUTE", "OPBLOCK", "LANEBLOCK")
        ],
        *[
            (execution(name, "attempt_interrupted"), {}, "execution_not_eligible")
            for name in ("DELAYED", "DEPS")
        ],
    ],
)
def test_issue_grant_and_claim_checks_in_order(
    of: Execution | None, around: dict[str, Any], code: str
) -> None:
    assert refusal(taken(of, **around)) == code


def test_a_wrong_lane_names_both() -> None:
    decision = taken(READY, "another")
    assert refusal(decision) == "invalid_input"
    assert "lane_mismatch: args.lane_id=another exec_core.lane_id=default" in str(decision.error)  # type: ignore[union-attr]


@pytest.mark.parametrize("held", [None, grant(worker_id="other", expires_in=-1)])
@pytest.mark.parametrize("state", VECTORS["READY"].attempt_states)
def test_an_operator_claims_ready_executions(state: str, held: Any) -> None:
    before = execution(attempt_state=state, required_capabilities=("gpu",))
    store = applied(taken(before, grant=held), before, attempt(before), held)
    after = check_lease(before, store, new=before.current_attempt_id is None, worker="operator")
    assert after.current_worker_instance_id == "operator"


@pytest.mark.parametrize("name", ["BUDGET", "QUOTA", "ROUTE", "OPBLOCK", "LANEBLOCK"])
def test_an_operator_continues_a_blocked_interrupted_attempt(name: str) -> None:
    before = execution(name, "attempt_interrupted")
    check_lease(
        before, applied(taken(before), before, attempt(before)), new=False, worker="operator"
    )
