"""Rows of the original become rows of this schema that keep every invariant, or a note."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from flowfabric.connect.importing import read_original
from flowfabric.rules.imports.original import whole

from .import_factory import AT, E, F, G, attempt, event, execution, facts, imported

ORIGINAL = Path(__file__).parents[1] / "compat" / "vectors" / "original-sqlite.db"
EXEC = "ff_exec_core"
W, S1, S2 = (UUID(int=n << 64 | 0x8 << 60) for n in (11, 12, 13))
KEY = f"wpk:{W}"


def one(*executions: dict[str, Any], **tables: Any) -> dict[str, Any]:
    """The first execution of an import."""
    return imported(ff_exec_core=[*executions], **tables).rows[EXEC][0]


def test_the_recorded_database() -> None:
    made = imported(**read_original(str(ORIGINAL)).tables)
    assert len(made.rows[EXEC]) == 48
    assert {note.table for note in made.notes if note.kind == "left out"} == {
        "ff_budget_usage_dedup"
    }


# ---- executions


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"lifecycle_phase": "submitted", "attempt_state": "pending"}, "eligible_now"),
        ({"eligibility_state": "pending_claim"}, "eligible_now"),
        ({"eligibility_state": "blocked_by_route"}, "eligible_now"),
        ({"eligibility_state": "blocked_by_operator"}, "blocked_by_operator"),
        ({"eligibility_state": "blocked_by_lane_state"}, "blocked_by_lane_state"),
        ({"eligibility_state": "blocked_by_dependencies"}, "blocked_by_dependencies"),
        ({"eligibility_state": "not_eligible_until_time"}, "not_eligible_until_time"),
        ({"lifecycle_phase": "active", "attempt_state": "running"}, "eligible_now"),
        ({"lifecycle_phase": "suspended"}, "blocked_by_operator"),
        ({"attempt_state": "lost"}, "eligible_now"),
    ],
)
def test_states_that_have_not_ended(fields: dict[str, Any], state: str) -> None:
    assert one(execution(**fields))["eligibility_state"] == state


@pytest.mark.parametrize(
    ("fields", "attempts", "outcome"),
    [
        ({"lifecycle_phase": "cancelled"}, [], "cancelled"),
        ({"public_state": "expired"}, [], "expired"),
        ({"public_state": "running"}, [attempt(outcome="success")], "success"),
        ({"public_state": "running"}, [attempt()], "failed"),
        ({"public_state": "running", "terminal_at_ms": None}, [], "failed"),
    ],
)
def test_outcomes(fields: dict[str, Any], attempts: list[dict[str, Any]], outcome: str) -> None:
    ended = {"lifecycle_phase": "terminal", "terminal_at_ms": AT, "eligibility_state": "x"}
    made = imported(ff_exec_core=[execution(**{**ended, **fields})], ff_attempt=attempts)
    (row,) = made.rows[EXEC]
    assert (row["terminal_outcome"], row["terminal_at_ms"]) == (outcome, AT)
    (end,) = made.rows["ff_completion_event"]
    assert end["outcome"] == outcome
    unknown = "its outcome is not recorded: imported as failed"
    assert ((EXEC, unknown) in facts(made)) is (outcome == "failed")


def test_an_attempt_ends_with_its_execution() -> None:
    ended = execution(lifecycle_phase="cancelled", terminal_at_ms=AT + 5)
    made = imported(ff_exec_core=[ended], ff_attempt=[attempt(outcome="delayed")])
    (row,) = made.rows["ff_attempt"]
    assert (row["attempt_state"], row["outcome"], row["terminal_at_ms"]) == (
        "ended_cancelled",
        "cancelled",
        AT + 5,
    )
    assert json.loads(row["raw_fields"]) == {"outcome": "delayed"}


def test_a_first_attempt_that_was_retried_is_not_made_again() -> None:
    made = imported(
        ff_exec_core=[execution()], ff_attempt=[attempt(outcome="failed", terminal_at_ms=AT)]
    )
    (row,) = made.rows[EXEC]
    assert (row["attempt_state"], row["total_attempt_count"], row["retry_count"]) == (
        "pending_retry_attempt",
        1,
        1,
    )


@pytest.mark.parametrize(("stated", "found"), [(0, 1), (1, 1), (2, 1), (9, 1)])
def test_replays_have_an_event_of_their_end(stated: int, found: int) -> None:
    ends = [event(n, outcome="failed") for n in (1, 2)]
    ended = execution(
        raw={"replay_count": stated},
        lifecycle_phase="terminal",
        public_state="failed",
        terminal_at_ms=AT,
    )
    made = imported(ff_exec_core=[ended], ff_completion_event=ends)
    replays = made.rows[EXEC][0]["replay_count"]
    assert replays == (2 if stated == 2 else found)


def test_a_running_execution_was_replayed_as_often_as_it_ended() -> None:
    ends = [event(1, outcome="failure")]
    made = imported(ff_exec_core=[execution(raw={"replay_count": 5})], ff_completion_event=ends)
    assert made.rows[EXEC][0]["replay_count"] == 1
    assert made.rows["ff_completion_event"][0]["outcome"] == "failed"


def test_fields_of_the_json_column_become_columns_and_others_stay() -> None:
    raw = {"tags": {"a.b": "c"}, "own": 1, "execution_kind": "k", "payload_encoding": "json"}
    row = one(execution(raw=raw, flow_id=None))
    assert json.loads(row["raw_fields"]) == {"own": 1}
    assert (row["tags"], row["execution_kind"], row["payload_encoding"]) == (
        '{"a.b":"c"}',
        "k",
        "json",
    )
    assert one(execution(raw={"namespace": ""}))["namespace"] == "default"
    assert one(execution(priority=-1))["priority"] == 0


def test_a_policy_loses_only_the_parts_that_are_refused() -> None:
    policy = {
        "priority": 1,
        "timeout_policy": {"attempt_timeout_ms": 2**64 - 1, "max_reclaim_count": 1},
        "stream_policy": {"retention_maxlen": 10**12},
        "retry_policy": {"max_retries": 1, "backoff": {"type": "exponential", "multiplier": 0.5}},
        "routing_requirements": {"required_capabilities": ["a,b"]},
    }
    made = imported(ff_exec_core=[execution(policy=json.dumps(policy))])
    (row,) = made.rows[EXEC]
    stored = json.loads(row["policy"])
    assert stored.keys() == {"priority", "timeout_policy", "stream_policy", "retry_policy"}
    assert stored["stream_policy"]["retention_maxlen"] == 2**32 - 1
    assert stored["retry_policy"]["backoff"]["multiplier"] == 1
    assert json.loads(row["raw_fields"])["policy"] == json.dumps(policy)
    assert row["attempt_timeout_ms"] is not None
    assert len(made.notes) == 1
    good = imported(ff_exec_core=[execution(policy='{"priority":1}')])
    assert good.notes == []
    near = imported(ff_exec_core=[execution(policy='{"dedup_window_ms":99999999999999999999}')])
    assert facts(near) == [(EXEC, "numbers of its policy become the nearest accepted ones")]


def test_one_key_names_one_execution() -> None:
    raw = {"idempotency_key": "k"}
    rows = [execution(E, raw), execution(F, raw, created_at_ms=AT + 1), execution(G, {})]
    made = imported(ff_exec_core=rows)
    assert [row["idempotency_key"] for row in made.rows[EXEC]] == ["k", None, None]
    assert len(made.rows["ff_idempotency"]) == 1
    assert facts(made) == [(EXEC, f"its key belongs to {E}")]


def test_rows_without_their_execution_are_left_out() -> None:
    suspension = {"partition_key": 0, "execution_id": E.bytes, "suspension_id": F.bytes}
    made = imported(
        ff_attempt=[attempt()],
        ff_execution_capabilities=[{"execution_id": E.bytes, "capability": "gpu"}],
        ff_lease_event=[event(1, str(E), event_type="acquired")],
        ff_suspension_current=[{**suspension, "member_map": "{}"}],
        ff_claim_grant=[{"worker_instance_id": "w"}],
        ff_worker_registry=[{"worker_instance_id": "w"}],
        ff_suspend_dedup=[{"idempotency_key": "k"}],
        ff_later=[{}],
    )
    assert {table for table, _ in facts(made, "left")} == {
        *("ff_attempt", "ff_execution_capabilities", "ff_lease_event", "ff_suspension_current"),
        *("ff_claim_grant", "ff_worker_registry", "ff_suspend_dedup", "ff_later"),
    }
    assert sum(map(len, made.rows.values())) == 0


def test_numbers_may_be_text_or_too_large() -> None:
    assert [whole(each) for each in ("7", None, "x", 2**70)] == [7, 0, 0, 2**63 - 1]


def test_lanes_and_capabilities() -> None:
    lane = {"lane_id": "l", "registered_at_ms": 5, "registered_by": "x"}
    made = imported(
        ff_exec_core=[execution()],
        ff_lane_registry=[lane],
        ff_execution_capabilities=[
            {"execution_id": E.bytes, "capability": name} for name in ("b", "a", "b")
        ],
    )
    assert made.rows["ff_lane_registry"][0]["updated_at_ms"] == 5
    assert made.rows[EXEC][0]["required_capabilities"] == ("a", "b")


# ---- events


def leases(*kinds: str) -> list[dict[str, Any]]:
    return [event(n, str(E), event_type=kind) for n, kind in enumerate(kinds, 1)]


@pytest.mark.parametrize(
    ("kinds", "stored"),
    [
        (("acquired", "revoked"), [("acquired", None), ("revoked", None)]),
        (
            ("acquired", "acquired", "expired"),
            [("acquired", None), ("reclaimed", "acquired"), ("expired", None)],
        ),
        (
            ("acquired", "renewed"),
            [("acquired", None), ("renewed", None), ("revoked", "suspended")],
        ),
        (("revoked", "renewed"), [("revoked", "cancelled")]),
        (
            ("acquired", "reclaimed", "revoked"),
            [("acquired", None), ("reclaimed", None), ("revoked", None)],
        ),
    ],
)
def test_a_lease_ends_before_the_next_begins(
    kinds: tuple[str, ...], stored: list[tuple[str, str | None]]
) -> None:
    made = imported(ff_exec_core=[execution()], ff_lease_event=leases(*kinds))
    found = made.rows["ff_lease_event"]
    assert [(row["event_type"], row["reason"]) for row in found] == stored


def test_the_last_lease_of_an_ended_execution_was_cancelled() -> None:
    ended = execution(lifecycle_phase="cancelled", terminal_at_ms=AT)
    made = imported(
        ff_exec_core=[ended],
        ff_attempt=[attempt(lease_epoch=9)],
        ff_lease_event=leases("acquired"),
    )
    assert made.rows["ff_lease_event"][-1]["reason"] == "cancelled"
    assert made.rows[EXEC][0]["lease_epoch"] == 2


def test_numbers_continue_behind_those_that_were_drawn() -> None:
    ended = execution(lifecycle_phase="cancelled", terminal_at_ms=AT)
    drawn = [{"name": "ff_completion_event", "seq": 70}, {"name": "other", "seq": 99}]
    made = imported(ff_exec_core=[ended], sqlite_sequence=drawn)
    assert [row["event_id"] for row in made.rows["ff_completion_event"]] == [71]


def test_events_of_operators_and_workers() -> None:
    flow = {"partition_key": 0, "flow_id": F.bytes, "graph_revision": 0, "terminal_at_ms": None}
    flow |= {"public_flow_state": "open", "created_at_ms": AT, "raw_fields": '{"namespace":"ns"}'}
    operators = [
        event(n, str(ident), event_type="replayed", details="{}", namespace=None)
        for n, ident in enumerate((E, F, G), 1)
    ]
    worker = {"namespace": "ns", "worker_instance_id": "w", "event_kind": "up", "reason": None}
    made = imported(
        ff_exec_core=[execution()],
        ff_flow_core=[flow],
        ff_operator_event=operators,
        ff_worker_registry_event=[{**worker, "event_at_ms": at} for at in (9, 8)],
    )
    assert [row["namespace"] for row in made.rows["ff_operator_event"]] == ["ns", "ns", None]
    assert [
        (row["event_id"], row["event_at_ms"]) for row in made.rows["ff_worker_registry_event"]
    ] == [(1, 8), (2, 9)]


# ---- waits


def blob(ident: UUID, **fields: Any) -> dict[str, Any]:
    return {"signal_id": str(ident), "signal_name": "go", "accepted_at": AT, **fields}


def suspension(members: dict[str, Any], condition: str | None = None) -> dict[str, Any]:
    single = {"Single": {"waitpoint_key": KEY, "matcher": {"ByName": "go"}}}
    return {
        "partition_key": 0,
        "execution_id": E.bytes,
        "suspension_id": F.bytes,
        "suspended_at_ms": AT,
        "timeout_at_ms": None,
        "reason_code": None,
        "satisfied_set": "[]",
        "timeout_behavior": None,
        "member_map": json.dumps(members),
        "condition": condition or json.dumps(single),
    }


def waitpoint(**fields: Any) -> dict[str, Any]:
    return {
        "partition_key": 0,
        "waitpoint_id": W.bytes,
        "execution_id": E.bytes,
        "token_kid": "k",
        "token": "k:" + "0" * 64,
        "created_at_ms": AT,
        "waitpoint_key": KEY,
        "expires_at_ms": None,
        "required_signal_names": '["go"]',
        "activated_at_ms": AT,
        "state": "active",
        **fields,
    }


def delivered(number: int, ident: UUID, point: UUID | None = W, at: int = AT) -> dict[str, Any]:
    where = {"signal_id": str(ident), "waitpoint_id": None if point is None else str(point)}
    return event(number, str(E), delivered_at_ms=at, source_identity="ann", **where)


SUSPENDED = {"lifecycle_phase": "suspended", "ownership_state": "released"}


def test_an_open_suspension_keeps_its_waitpoint_and_signals() -> None:
    made = imported(
        ff_exec_core=[execution(**SUSPENDED)],
        ff_attempt=[attempt(outcome="attempt_interrupted")],
        ff_suspension_current=[suspension({KEY: [blob(S1, payload_hex="7b7d")]})],
        ff_waitpoint_pending=[waitpoint()],
        ff_signal_event=[delivered(1, S1)],
    )
    (row,), (point,) = made.rows[EXEC], made.rows["ff_waitpoint_pending"]
    assert (row["current_suspension_id"], row["attempt_state"]) == (F, "attempt_interrupted")
    assert row["current_attempt_id"] == made.rows["ff_attempt"][0]["attempt_id"]
    assert (point["state"], point["suspension_id"], point["signal_count"]) == ("active", F, 1)
    assert "0" * 64 not in point["token_digest"]
    assert made.rows["ff_signal"][0]["payload"] == b"{}"
    assert made.notes == []


def test_a_satisfied_suspension_is_closed_by_its_last_signal() -> None:
    made = imported(
        ff_exec_core=[execution(attempt_state="attempt_interrupted")],
        ff_attempt=[attempt(outcome="attempt_interrupted")],
        ff_suspension_current=[suspension({KEY: [blob(S1), blob(S2)]})],
        ff_signal_event=[delivered(1, S1), delivered(2, S2)],
        ff_completion_event=[event(1, outcome="resumable", occurred_at_ms=AT + 3)],
    )
    (found,), (point,) = made.rows["ff_suspension_current"], made.rows["ff_waitpoint_pending"]
    assert (found["closer_signal_id"], found["closed_at_ms"]) == (S2, AT + 3)
    assert (point["satisfied_at_ms"], point["matched_signal_count"]) == (AT + 3, 1)
    assert [row["matched"] for row in made.rows["ff_signal"]] == [0, 1]


def test_a_satisfying_signal_may_come_while_it_is_still_suspended() -> None:
    made = imported(
        ff_exec_core=[execution(**SUSPENDED)],
        ff_suspension_current=[suspension({KEY: [blob(S1)]})],
        ff_waitpoint_pending=[waitpoint()],
        ff_signal_event=[delivered(1, S1)],
        ff_completion_event=[event(1, outcome="resumable")],
    )
    assert made.rows["ff_suspension_current"][0]["closed_at_ms"] is None


def test_an_end_of_a_suspension_without_a_signal_is_left_out() -> None:
    made = imported(
        ff_exec_core=[execution()],
        ff_completion_event=[event(1, outcome="resumable")],
        ff_signal_event=[delivered(1, S1, at=AT + 1), delivered(2, S2, None)],
    )
    assert [fact for _, fact in facts(made, "left")] == [
        "no signal of its execution explains it",
        "it names no waitpoint",
    ]
    (point,) = made.rows["ff_waitpoint_pending"]
    assert (point["waitpoint_id"], point["signals_trimmed"], point["state"]) == (W, 1, "closed")


def test_signals_that_are_gone_count_as_trimmed_on_their_waitpoint() -> None:
    made = imported(
        ff_exec_core=[execution(**SUSPENDED)],
        ff_suspension_current=[suspension({})],
        ff_waitpoint_pending=[waitpoint()],
        ff_signal_event=[delivered(1, S1)],
    )
    assert made.rows["ff_waitpoint_pending"][0]["signals_trimmed"] == 1


@pytest.mark.parametrize("is_open", [True, False])
def test_a_condition_that_cannot_be_read_holds_its_execution(is_open: bool) -> None:
    fields = SUSPENDED if is_open else {}
    made = imported(
        ff_exec_core=[execution(**fields)],
        ff_suspension_current=[suspension({KEY: [blob(S1)]}, condition='{"What":1}')],
    )
    state = "blocked_by_operator" if is_open else "eligible_now"
    assert made.rows[EXEC][0]["eligibility_state"] == state
    assert len(made.rows["ff_suspension_current"]) == (not is_open)


@pytest.mark.parametrize(
    ("state", "stored"),
    [("active", "closed"), ("pending", "pending"), ("odd", "closed"), ("expired", "expired")],
)
def test_waitpoints_outside_of_a_suspension(state: str, stored: str) -> None:
    made = imported(ff_exec_core=[execution()], ff_waitpoint_pending=[waitpoint(state=state)])
    assert made.rows["ff_waitpoint_pending"][0]["state"] == stored
    assert len(made.notes) == (state in ("active", "odd"))


def test_signals_of_an_unknown_waitpoint_are_left_out() -> None:
    made = imported(
        ff_exec_core=[execution()], ff_suspension_current=[suspension({"own key": [blob(S1)]})]
    )
    assert facts(made) == [("ff_signal", "1 signals of an unknown waitpoint")]


def test_the_newest_active_key_signs() -> None:
    rows = [
        {"kid": kid, "secret": b"s", "rotated_at_ms": at, "active": active}
        for kid, at, active in (("a", 1, 1), ("b", 2, 1), ("c", 3, 0))
    ]
    made = imported(ff_waitpoint_hmac=rows)
    assert [row["active"] for row in made.rows["ff_waitpoint_hmac"]] == [0, 1, 0]


# ---- flows


def flow(edges: int, **fields: Any) -> dict[str, Any]:
    raw = {"namespace": "ns", "edge_count": edges, "node_count": 2}
    return {
        "partition_key": 0,
        "flow_id": G.bytes,
        "graph_revision": 1,
        "terminal_at_ms": None,
        "public_flow_state": "open",
        "created_at_ms": AT,
        "raw_fields": json.dumps(raw),
        **fields,
    }


def edge(upstream: UUID, downstream: UUID, applied: int | None = AT) -> dict[str, Any]:
    policy = {"edge_state": "applied" if applied else "pending", "applied_at_ms": applied}
    return {
        "partition_key": 0,
        "flow_id": G.bytes,
        "policy_version": 0,
        "edge_id": UUID(int=upstream.int ^ downstream.int).bytes,
        "upstream_eid": upstream.bytes,
        "downstream_eid": downstream.bytes,
        "policy": json.dumps(policy),
    }


def group(policy: str = '{"kind":"all_of"}', **fields: Any) -> dict[str, Any]:
    return {
        "partition_key": 0,
        "flow_id": G.bytes,
        "downstream_eid": F.bytes,
        "k_target": 0,
        "success_count": 0,
        "fail_count": 0,
        "skip_count": 0,
        "running_count": 0,
        "cancel_siblings_pending_flag": 0,
        "cancel_siblings_pending_members": "[]",
        "policy": policy,
        **fields,
    }


def ended(ident: UUID, state: str) -> dict[str, Any]:
    phase = "cancelled" if state == "cancelled" else "terminal"
    fields = {"lifecycle_phase": phase, "public_state": state, "terminal_at_ms": AT}
    return execution(ident, flow_id=G.bytes, **fields)


BLOCKED = {"eligibility_state": "blocked_by_dependencies", "flow_id": G.bytes}


@pytest.mark.parametrize(
    ("upstream", "counts", "state"),
    [
        ("completed", {"success_count": 1}, "satisfied"),
        ("failed", {"fail_count": 1}, "impossible"),
        ("skipped", {"skip_count": 1}, "impossible"),
        ("failed", {"running_count": 1}, "pending"),
    ],
)
def test_edges_are_resolved_as_their_group_counts(
    upstream: str, counts: dict[str, int], state: str
) -> None:
    waits = {**BLOCKED, **({"eligibility_state": "eligible_now"} if state == "satisfied" else {})}
    made = imported(
        ff_exec_core=[ended(E, upstream), execution(F, **waits)],
        ff_flow_core=[flow(1)],
        ff_edge=[edge(E, F)],
        ff_edge_group=[group(**counts)],
    )
    (found,) = made.rows["ff_edge_group"]
    assert found["group_state"] == state
    assert facts(made, "changed") == []


@pytest.mark.parametrize(
    ("policy", "state"),
    [('{"kind":"any_of"}', "satisfied"), ('{"kind":"quorum","k":2}', "pending")],
)
def test_groups_that_need_some_of_their_edges(policy: str, state: str) -> None:
    made = imported(
        ff_exec_core=[
            *(ended(E, "completed"), execution(W, flow_id=G.bytes)),
            execution(
                F,
                **BLOCKED | ({"eligibility_state": "eligible_now"} if state == "satisfied" else {}),
            ),
        ],
        ff_flow_core=[flow(2)],
        ff_edge=[edge(E, F), edge(W, F)],
        ff_edge_group=[group(policy, success_count=1, running_count=1)],
    )
    assert made.rows["ff_edge_group"][0]["group_state"] == state


def test_a_quorum_that_cannot_be_reached_is_impossible() -> None:
    made = imported(
        ff_exec_core=[ended(E, "failed"), execution(F, **BLOCKED)],
        ff_flow_core=[flow(1)],
        ff_edge=[edge(E, F)],
        ff_edge_group=[group('{"kind":"any_of"}', fail_count=1)],
    )
    assert made.rows["ff_edge_group"][0]["group_state"] == "impossible"


def test_counts_that_the_edges_do_not_give_are_corrected() -> None:
    made = imported(
        ff_exec_core=[execution(E, flow_id=G.bytes), execution(F, **BLOCKED)],
        ff_flow_core=[flow(7)],
        ff_edge=[edge(E, F), edge(F, E, None)],
        ff_edge_group=[group(success_count=3)],
    )
    assert made.rows["ff_edge_group"][0]["running_count"] == 1
    assert json.loads(made.rows["ff_flow_core"][0]["raw_fields"])["edge_count"] == 2
    assert {table for table, _ in facts(made, "changed")} == {"ff_edge_group", "ff_flow_core"}


def test_applied_edges_without_a_group_get_one() -> None:
    made = imported(
        ff_exec_core=[execution(E, flow_id=G.bytes), execution(F, **BLOCKED)],
        ff_flow_core=[flow(1)],
        ff_edge=[edge(E, F)],
    )
    assert made.rows["ff_edge_group"][0]["group_state"] == "pending"


def cancelling(flag: int, counts: dict[str, int], queued: bool) -> Any:
    policy = '{"kind":"any_of","on_satisfied":"cancel_remaining"}'
    members = {"cancel_siblings_pending_flag": flag}
    queue = {"partition_key": 0, "flow_id": G.bytes, "downstream_eid": F.bytes}
    backlog = {"partition_key": 0, "flow_id": G.bytes, "requested_at_ms": AT, "requester": ""}
    return imported(
        ff_exec_core=[
            *(ended(E, "completed"), execution(W, flow_id=G.bytes)),
            execution(F, flow_id=G.bytes),
        ],
        ff_flow_core=[flow(2)],
        ff_edge=[edge(E, F), edge(W, F)] if counts else [],
        ff_edge_group=[group(policy, **members, **counts)],
        ff_pending_cancel_groups=[{**queue, "enqueued_at_ms": AT}] if queued else [],
        ff_cancel_backlog=[{**backlog, "cancellation_policy": "x"}],
        ff_cancel_dispatch_outbox=[{"target_exec_id": W.bytes}],
    )


@pytest.mark.parametrize(
    ("flag", "counts", "queued", "kept"),
    [
        (1, {"success_count": 1, "running_count": 1}, True, 1),
        (1, {"success_count": 1, "running_count": 1}, False, 0),
        (1, {}, True, 0),
        (0, {"success_count": 1, "running_count": 1}, True, 0),
    ],
)
def test_siblings_that_are_being_cancelled(
    flag: int, counts: dict[str, int], queued: bool, kept: int
) -> None:
    made = cancelling(flag, counts, queued)
    assert len(made.rows["ff_pending_cancel_groups"]) == kept
    assert made.rows["ff_edge_group"][0]["cancel_siblings_pending_flag"] == kept
    assert made.rows["ff_cancel_backlog"][0]["flow_id"] == G
    assert facts(made, "left")[-1] == (
        "ff_cancel_dispatch_outbox",
        "cancel the execution, if it still runs",
    )


# ---- limits

B, Q = UUID(int=21 << 64 | 0x8 << 60), UUID(int=22 << 64 | 0x8 << 60)


def budget(**fields: Any) -> dict[str, Any]:
    return {
        "partition_key": 0,
        "budget_id": str(B),
        "created_at_ms": AT,
        "updated_at_ms": AT,
        "policy_json": json.dumps({"hard_limits": {"cost": 10}, "soft_limits": None}),
        **fields,
    }


def quota(**fields: Any) -> dict[str, Any]:
    return {
        "partition_key": 0,
        "quota_policy_id": str(Q),
        "created_at_ms": AT,
        "updated_at_ms": AT,
        "requests_per_window_seconds": 60,
        "max_requests_per_window": 5,
        "active_concurrency_cap": 2,
        "active_concurrency": 1,
        **fields,
    }


def limited(ident: UUID, namespace: str) -> dict[str, Any]:
    policy = {"budget_ids": [str(B)], "quota_policy_id": str(Q)}
    return execution(ident, {"namespace": namespace}, policy=json.dumps(policy))


def test_limits_belong_to_the_namespace_of_their_executions() -> None:
    charge = {"dimensions_key": "cost", "delta_total": 3, "updated_at_ms": AT}
    window = {"quota_policy_id": str(Q), "dimension": "", "admitted_at_ms": AT}
    usage = {"budget_id": str(B), "dimensions_key": "cost", "current_value": 3, "updated_at_ms": AT}
    made = imported(
        ff_exec_core=[limited(E, "acme")],
        ff_budget_policy=[budget()],
        ff_budget_usage=[usage],
        ff_budget_usage_by_exec=[
            {**charge, "budget_id": str(B), "execution_id": f"{{fp:0}}:{E}"},
            {**charge, "budget_id": str(B), "execution_id": str(F)},
        ],
        ff_budget_usage_dedup=[{"dedup_key": "d"}],
        ff_quota_policy=[quota()],
        ff_quota_window=[{**window, "execution_id": str(E)}],
        ff_quota_admitted=[{"quota_policy_id": str(Q), "execution_id": str(F)}],
    )
    for table in ("ff_budget_policy", "ff_quota_policy"):
        assert made.rows[table][0]["namespace"] == "acme"
    assert made.rows["ff_lane_gate"][0]["gate"] == str(Q)
    assert len(made.rows["ff_budget_usage_by_exec"]) == 1
    assert [table for table, _ in facts(made)] == [
        "ff_budget_usage_dedup",
        "ff_budget_usage_by_exec",
        "ff_quota_policy",
        "ff_quota_admitted",
    ]


def test_limits_shared_by_namespaces_are_released() -> None:
    rows = [limited(E, "acme"), limited(F, "other")]
    made = imported(ff_exec_core=rows, ff_budget_policy=[budget()], ff_quota_policy=[quota()])
    for row in made.rows[EXEC]:
        assert (row["budget_ids"], row["quota_policy_id"], row["gate"]) == ((), None, "")
    assert sum(fact.endswith("released") for _, fact in facts(made)) == 4


def test_numbers_beyond_the_limits_of_the_engine_are_clamped() -> None:
    policy = json.dumps({"hard_limits": {"cost": 2**64 - 1}})
    made = imported(
        ff_budget_policy=[budget(policy_json=policy)],
        ff_quota_policy=[quota(active_concurrency_cap=-1, active_concurrency=0)],
    )
    stored = json.loads(made.rows["ff_budget_policy"][0]["policy_json"])
    assert stored["hard_limits"]["cost"] == 2**63 - 1
    assert made.rows["ff_quota_policy"][0]["active_concurrency_cap"] == 0
    assert len(made.notes) == 2


# ---- streams


def frame(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "partition_key": 0,
        "execution_id": E.bytes,
        "attempt_index": 0,
        "seq": 0,
        "ts_ms": AT + number,
        "fields": "{}",
        "mode": "durable",
        "created_at_ms": AT,
        **fields,
    }


def test_frames_are_numbered_in_their_order() -> None:
    document = {"partition_key": 0, "execution_id": E.bytes, "attempt_index": 0, "version": 3}
    document |= {"document_json": "{}", "last_updated_ms": AT, "first_applied_ms": AT}
    meta = {"partition_key": 0, "execution_id": E.bytes, "attempt_index": 0}
    meta |= {"ema_rate_hz": 0.5, "last_append_ts_ms": AT}
    modes = ("durable", "summary", "best_effort_live", "odd")
    made = imported(
        ff_exec_core=[execution()],
        ff_attempt=[attempt(outcome="failed", terminal_at_ms=None)],
        ff_stream_frame=[
            *(frame(n, mode=mode) for n, mode in enumerate(modes)),
            frame(9, attempt_index=1),
        ],
        ff_stream_meta=[meta, {**meta, "attempt_index": 4}],
        ff_stream_summary=[document, {**document, "attempt_index": 4}],
    )
    (found,) = made.rows["ff_stream_meta"]
    counts = ("frame_count", "durable_count", "summary_count", "summary_trimmed", "live_count")
    assert [found[name] for name in counts] == [6, 2, 3, 2, 1]
    assert found["ema_rate_hz"] == 0.5
    assert len(facts(made, "left")) == 3
    assert facts(made, "changed") == [
        ("ff_stream_frame", "a frame of mode odd is imported as durable")
    ]
