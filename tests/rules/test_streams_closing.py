"""Output streams: why an append is refused, and when and why a stream is closed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flowfabric.errors import NotFound
from flowfabric.model.lease import HandleFields
from flowfabric.rules.streams import streams
from flowfabric.rules.streams.streams import AttemptEnd, StreamExecution

from .factory import NOW, execution, handle, snapshot


@pytest.mark.parametrize(
    ("vector", "columns", "shown", "code"),
    [
        ("RUNNING", {}, {}, None),
        ("RUNNING", {}, {"lease_epoch": 9}, "lease_conflict"),
        ("RUNNING", {}, {"attempt_index": 1}, "lease_conflict"),
        ("RUNNING", {}, {"worker_instance_id": "somebody"}, "lease_conflict"),
        ("RUNNING", {"lease_expires_at_ms": NOW}, {}, "lease_expired"),
        ("RUNNING", {"ownership_state": "lease_revoked"}, {}, "lease_revoked"),
        ("LOST", {}, {}, "lease_expired"),
        ("SUSPENDED", {"lease_epoch": 1}, {}, "stream_closed"),
        ("SUSPENDED", {}, {"lease_epoch": 1}, "lease_conflict"),
        ("ENDED", {}, {}, "stream_closed"),
    ],
)
def test_why_an_append_is_refused(
    vector: str, columns: dict[str, Any], shown: dict[str, Any], code: str | None
) -> None:
    outcome = {"outcome": "success"} if vector == "ENDED" else {}
    found = execution(vector, **outcome, **columns)
    error = streams.refusal(snapshot(found), handle(found, **shown))
    assert (None if error is None else error.code) == code


def test_what_is_not_there_is_not_found() -> None:
    found = execution("RUNNING")
    nobody: HandleFields = handle(found)
    for around, what in ((snapshot(None), "execution"), (snapshot(found, attempt=None), "attempt")):
        error = streams.refusal(around, nobody)
        assert isinstance(error, NotFound) and error.entity == what


# ---- when it is over

GOES_ON = StreamExecution("active", 0, "leased", None, None, NOW)
OPEN = AttemptEnd(0, None, None, None)


@pytest.mark.parametrize(
    ("outcome", "why", "reason"),
    [
        ("success", None, "attempt_success"),
        ("failed", "boom", "attempt_failure"),
        ("retry", "boom", "attempt_failure"),
        ("cancelled", "enough", "attempt_cancelled"),
        ("cancelled", None, "attempt_cancelled"),
        ("interrupted_reclaimed", "lease_expired", "reclaimed"),
        ("expired", "attempt_timeout", "expired"),
        ("expired", "execution_deadline", "expired"),
        ("failed", "suspension_timeout:fail", "suspension_timeout"),
        ("cancelled", "suspension_timeout:cancel", "suspension_timeout"),
        ("expired", "suspension_timeout:expire", "suspension_timeout"),
        ("skipped", "dependency_impossible", "dependency_impossible"),
        ("failed", "suspension_timeout of a service we call", "attempt_failure"),
        ("retry", "suspension_timeout:fail", "attempt_failure"),
        ("something new", None, "attempt_failure"),
        (None, None, "attempt_failure"),
    ],
)
@pytest.mark.parametrize(
    "now", [GOES_ON, StreamExecution("terminal", 1, "unowned", "lease_expired", NOW, NOW)]
)
def test_the_close_reason_follows_from_the_end_of_the_attempt(
    outcome: str | None, why: str | None, reason: str, now: StreamExecution
) -> None:
    assert streams.closure(now, AttemptEnd(0, NOW - 7, outcome, why)) == (NOW - 7, reason)


@pytest.mark.parametrize(
    ("changes", "closed"),
    [
        ({}, None),
        (
            {"ownership_state": "lease_expired_reclaimable", "interrupt_cause": "lease_expired"},
            (NOW, "lease_expired"),
        ),
        (
            {
                "ownership_state": "lease_expired_reclaimable",
                "interrupt_cause": "lease_expired",
                "lease_expired_at": NOW - 3,
            },
            (NOW - 3, "lease_expired"),
        ),
        (
            {"ownership_state": "unowned", "interrupt_cause": "lease_expired"},
            (NOW, "lease_expired"),
        ),
        (
            {"ownership_state": "lease_revoked", "interrupt_cause": "lease_revoked"},
            (NOW, "lease_revoked"),
        ),
        ({"ownership_state": "unowned", "interrupt_cause": "suspended"}, None),
        ({"ownership_state": "unowned", "interrupt_cause": "delayed"}, None),
        ({"ownership_state": "unowned"}, None),
        ({"ownership_state": "leased", "interrupt_cause": "lease_expired"}, None),
        (
            {"ownership_state": "unowned", "interrupt_cause": "lease_expired", "attempt_index": 1},
            None,
        ),
    ],
)
def test_an_open_attempt_is_over_only_while_its_lease_was_taken(
    changes: dict[str, Any], closed: tuple[int, str] | None
) -> None:
    assert streams.closure(replace(GOES_ON, **changes), OPEN) == closed


@pytest.mark.parametrize(
    ("phase", "ended"),
    [("active", False), ("suspended", False), ("terminal", True), ("cancelled", True)],
)
def test_an_execution_has_ended_by_its_phase(phase: str, ended: bool) -> None:
    assert replace(GOES_ON, lifecycle_phase=phase).ended is ended
