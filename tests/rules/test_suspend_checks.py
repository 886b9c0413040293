from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from flowfabric.errors import EngineError
from flowfabric.model.waitpoint import (
    AllOf,
    Count,
    CountKind,
    FreshWaitpoint,
    OperatorOnly,
    Single,
    SuspendArgs,
    TimeoutOnly,
    all_of_waitpoints,
)
from flowfabric.plan import Applied, Refused
from flowfabric.rules.waits.suspend import (
    check_args,
    check_stored,
    dedup_key,
    dedup_ms,
    key_of,
    remember,
)

from .factory import (
    IDENT,
    NOW,
    commit,
    execution,
    handle,
    run,
    seeded,
)
from .wait_factory import (
    FRESH,
    PENDING,
    SECOND,
    SUSPENSION_ID,
    THIRD,
    WAITPOINT_ID,
    around,
    suspend_args,
    suspension,
    waitpoint,
)

B, C = FreshWaitpoint(SECOND, "b"), FreshWaitpoint(THIRD, "c")
AB, ABC = all_of_waitpoints("a", "b"), all_of_waitpoints("a", "b", "c")
LATE = NOW - 600_001
DEEP = AllOf((AllOf((AllOf((AllOf((AllOf((Single("a"),)),)),)),)),))


def said(problem: EngineError | None) -> str:
    """The detail of bad input, or the code of anything else."""
    if problem is None:
        return ""
    return problem.detail if problem.code == "invalid_input" else problem.code  # type: ignore[attr-defined, no-any-return]


# ---- arguments


@pytest.mark.parametrize(
    ("args", "detail"),
    [
        (
            SuspendArgs(
                suspension_id=SUSPENSION_ID, waitpoints=(), resume_condition=Single("b", "")
            ),
            "waitpoints_empty",
        ),
        (suspend_args(Single("z", ""), FRESH, PENDING, timeout_at=LATE), "waitpoint_key_mismatch"),
        (suspend_args(Single("wpk:x", ""), FreshWaitpoint(WAITPOINT_ID)), "waitpoint_key_mismatch"),
        (
            suspend_args(DEEP, FRESH, PENDING),
            "additional_waitpoint_binding_must_be_fresh at waitpoints[1]",
        ),
        (
            suspend_args(DEEP, PENDING, B, PENDING),
            "additional_waitpoint_binding_must_be_fresh at waitpoints[2]",
        ),
        (
            suspend_args(DEEP, FRESH, FreshWaitpoint(SECOND), PENDING),
            "additional_waitpoint_binding_empty_key at waitpoints[1]",
        ),
        (suspend_args(ABC, FRESH, B), "referenced_waitpoint_key_missing_binding: c"),
        (
            suspend_args(all_of_waitpoints("c", "a"), FRESH, B),
            "referenced_waitpoint_key_missing_binding: c",
        ),
        (suspend_args(DEEP, FRESH, B), "extra_binding_not_referenced_by_condition: b"),
        (suspend_args(AB, FRESH, B, C), "extra_binding_not_referenced_by_condition: c"),
        (suspend_args(Single("a", ""), FRESH, B), "extra_binding_not_referenced_by_condition: b"),
        (suspend_args(OperatorOnly(), FRESH, B), "extra_binding_not_referenced_by_condition: a"),
        (suspend_args(AB, PENDING, C), "extra_binding_not_referenced_by_condition: c"),
        (suspend_args(AB, PENDING, B, timeout_at=LATE), "use_pending_with_extras_unsupported"),
        (suspend_args(TimeoutOnly(), FRESH), "timeout_only_without_deadline"),
        (suspend_args(TimeoutOnly(), PENDING), "timeout_only_without_deadline"),
        (
            suspend_args(Single("a", ""), timeout_at=LATE),
            "resume_condition: empty signal name (use Wildcard instead)",
        ),
        (
            suspend_args(Single("z", ""), PENDING),
            "resume_condition: empty signal name (use Wildcard instead)",
        ),
        (suspend_args(DEEP, timeout_at=LATE), "timeout_at_in_past"),
        (suspend_args(TimeoutOnly(), timeout_at=LATE), "timeout_at_in_past"),
        (suspend_args(timeout_at=NOW, now=NOW + 600_001), "timeout_at_in_past"),
        (
            suspend_args(DEEP),
            "depth 5 exceeds cap 4 at path members[0].members[0].members[0].members[0]",
        ),
        (suspend_args(AllOf(())), "allof_empty_members at path <root>"),
        (suspend_args(Count(0, CountKind.DISTINCT_SIGNALS, ("a",))), "count_n_zero at path <root>"),
        (
            suspend_args(Count(1, CountKind.DISTINCT_SIGNALS, ())),
            "count_waitpoints_empty at path <root>",
        ),
        (
            suspend_args(Count(2, CountKind.DISTINCT_WAITPOINTS, ("a",))),
            "count_exceeds_waitpoint_set: n=2 > waitpoints.len()=1 at path <root>",
        ),
    ],
)
def test_the_checks_of_the_arguments_in_order(args: SuspendArgs, detail: str) -> None:
    assert said(check_args(args, NOW)) == detail


@pytest.mark.parametrize(
    "args",
    [
        suspend_args(),
        suspend_args(Single("anything"), PENDING),
        suspend_args(Single(f"wpk:{WAITPOINT_ID}"), FreshWaitpoint(WAITPOINT_ID)),
        suspend_args(AB, FRESH, B),
        suspend_args(ABC, C, FRESH, B),
        suspend_args(AB, FRESH),
        suspend_args(AB, PENDING),
        suspend_args(OperatorOnly()),
        suspend_args(TimeoutOnly(), timeout_at=NOW),
        suspend_args(timeout_at=NOW - 600_000),
        suspend_args(timeout_at=LATE, now=NOW - 1),
        suspend_args(Count(1, CountKind.DISTINCT_WAITPOINTS, ("a", "b")), FRESH, B),
    ],
)
def test_arguments_that_are_fine(args: SuspendArgs) -> None:
    assert check_args(args, NOW) is None


def test_a_waitpoint_without_a_key_is_called_after_its_id() -> None:
    assert key_of(FreshWaitpoint(WAITPOINT_ID)) == f"wpk:{WAITPOINT_ID}"
    assert key_of(FRESH) == "a"


@pytest.mark.parametrize(
    ("timeout_at", "kept"),
    [
        (None, 604_800_000),
        (NOW - 5, 60_000),
        (NOW, 60_000),
        (NOW + 7, 60_007),
        (NOW + 604_740_000, 604_800_000),
        (NOW + 604_740_001, 604_800_000),
    ],
)
def test_the_ttl_of_a_stored_outcome(timeout_at: int | None, kept: int) -> None:
    assert dedup_ms(timeout_at, NOW) == kept


def test_the_entries_kept_for_an_execution() -> None:
    assert dedup_key(IDENT.uuid, "k") == f"{IDENT.uuid}:k"
    store = seeded()
    assert isinstance(commit(store, remember(IDENT, "k", "{}", NOW, 10, known=False)), Applied)
    assert isinstance(commit(store, remember(IDENT, "k", "{1}", NOW, 10, known=False)), Refused)
    (row,) = run(store.dump(("ff_suspend_dedup",)))["ff_suspend_dedup"]
    assert row == (IDENT.partition_index, f"{IDENT.uuid}:k", IDENT.uuid, "{}", NOW, NOW + 10)
    assert isinstance(commit(store, remember(IDENT, "k", "{2}", NOW + 20, 10, known=True)), Applied)
    (row,) = run(store.dump(("ff_suspend_dedup",)))["ff_suspend_dedup"]
    assert row == (IDENT.partition_index, f"{IDENT.uuid}:k", IDENT.uuid, "{2}", NOW + 20, NOW + 30)


# ---- what is stored

HELD = handle(execution("RUNNING"))
SPENT: dict[str, Any] = {"expires_at_ms": NOW, "token_digest": ""}
FOREIGN: dict[str, Any] = {**SPENT, "execution_id": UUID(int=9)}


@pytest.mark.parametrize(
    ("at", "args", "code"),
    [
        (around(suspension=suspension()), suspend_args(Single("a"), PENDING), "already_suspended"),
        (
            around(suspension=suspension(closed_at_ms=NOW)),
            suspend_args(Single("a"), PENDING),
            "waitpoint_not_found",
        ),
        (
            around(waitpoint(state="active", **FOREIGN)),
            suspend_args(Single("z"), PENDING),
            "waitpoint_not_pending",
        ),
        (
            around(waitpoint(state="closed", **FOREIGN)),
            suspend_args(Single("z"), PENDING),
            "waitpoint_not_pending",
        ),
        (
            around(waitpoint(state="expired", **FOREIGN)),
            suspend_args(Single("z"), PENDING),
            "waitpoint_not_pending",
        ),
        (
            around(waitpoint(state="pending", **FOREIGN)),
            suspend_args(Single("z"), PENDING),
            "invalid_waitpoint_for_execution",
        ),
        (
            around(waitpoint(state="pending", attempt_index=1, **SPENT)),
            suspend_args(Single("z"), PENDING),
            "invalid_waitpoint_for_execution",
        ),
        (
            around(waitpoint(state="pending", **SPENT)),
            suspend_args(Single("z"), PENDING),
            "pending_waitpoint_expired",
        ),
        (
            around(waitpoint(state="pending", token_digest="", expires_at_ms=NOW + 1)),
            suspend_args(Single("z"), PENDING),
            "waitpoint_not_token_bound",
        ),
        (
            around(waitpoint(state="pending")),
            suspend_args(Single("z"), PENDING),
            "waitpoint_key_mismatch",
        ),
        (around(waitpoint()), suspend_args(), "waitpoint_already_exists"),
        (around(waitpoint(state="pending")), suspend_args(), "waitpoint_already_exists"),
        (around(waitpoint(state="closed", **FOREIGN)), suspend_args(), "waitpoint_already_exists"),
        (around(waitpoint(SECOND)), suspend_args(AB, FRESH, B), "waitpoint_already_exists"),
        (
            around(),
            suspend_args(AB, FRESH, FreshWaitpoint(WAITPOINT_ID, "b")),
            "waitpoint_already_exists",
        ),
    ],
)
def test_the_checks_of_what_is_there_in_order(at: Any, args: SuspendArgs, code: str) -> None:
    assert said(check_stored(at, HELD, args)) == code


@pytest.mark.parametrize(
    ("at", "args"),
    [
        (around(), suspend_args()),
        (around(suspension=suspension(closed_at_ms=NOW)), suspend_args()),
        (around(waitpoint(state="closed")), suspend_args()),
        (around(waitpoint(state="expired")), suspend_args()),
        (around(waitpoint(state="pending")), suspend_args(Single("a"), PENDING)),
        (
            around(waitpoint(state="pending", expires_at_ms=NOW + 1)),
            suspend_args(Single("a"), PENDING),
        ),
        (around(waitpoint(state="pending")), suspend_args(all_of_waitpoints("z"), PENDING)),
        (around(waitpoint(state="pending")), suspend_args(OperatorOnly(), PENDING)),
        (around(), suspend_args(ABC, FRESH, B, C)),
    ],
)
def test_nothing_stored_is_in_the_way(at: Any, args: SuspendArgs) -> None:
    assert check_stored(at, HELD, args) is None
