"""Executions, their attempts, keys and lanes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID, uuid5

from flowfabric.errors import EngineError
from flowfabric.ids import INSTANCE_TAG_KEY
from flowfabric.model.event import is_end
from flowfabric.model.policy import (
    DEFAULT_DEDUP_WINDOW_MS,
    MAX_DURATION_MS,
    ExecutionPolicy,
    encode_policy,
    parse_policy,
)
from flowfabric.model.quota import Attached
from flowfabric.rules.executions.create import clamp_priority, encode_tags
from flowfabric.rules.imports.original import (
    Imported,
    Key,
    Original,
    Row,
    copied,
    grouped,
    json_of,
    key_of,
    known,
    optional_uuid,
    text_of,
    whole,
)
from flowfabric.rules.states import VECTORS, canonical, entering

EXEC, ATTEMPT = "ff_exec_core", "ff_attempt"
MAX_RETAINED_FRAMES = 2**32 - 1
_OUTCOME_OF = {
    "completed": "success",
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
    "skipped": "skipped",
}
_OUTCOMES = {**{name: name for name in _OUTCOME_OF.values()}, "failure": "failed"}
_ATTEMPT_STATES = {
    "success": "ended_success",
    "failed": "ended_failure",
    "failure": "ended_failure",
    "retry": "ended_failure",
    "cancelled": "ended_cancelled",
}
_BLOCKED = {
    "blocked_by_dependencies": "DEPS",
    "blocked_by_operator": "OPBLOCK",
    "blocked_by_lane_state": "LANEBLOCK",
}
_COLUMNS = (
    "lane_id",
    "created_at_ms",
    "started_at_ms",
    "terminal_at_ms",
    "lease_reclaim_count",
    "cancellation_reason",
    "cancelled_by",
    "payload",
    "result",
)
_FIELDS = frozenset(
    {
        *("namespace", "execution_kind", "creator_identity", "payload_encoding", "tags"),
        *("last_mutation_at", "total_attempt_count", "replay_count", "retry_count"),
        *("idempotency_key", "last_failure_message"),
    }
)
"""Fields of the JSON column that have columns of their own here."""


def import_executions(original: Original, made: Imported) -> None:
    attempts = grouped(original.rows(ATTEMPT))
    ends = grouped(original.rows("ff_completion_event"))
    capabilities: dict[UUID, list[str]] = defaultdict(list)
    for row in original.rows("ff_execution_capabilities"):
        capabilities[UUID(bytes=row["execution_id"])].append(row["capability"])
    rows = sorted(original.rows(EXEC), key=lambda row: (row["created_at_ms"], row["execution_id"]))
    for row in rows:
        key = key_of(row)
        outcomes = [e["outcome"] for e in ends.get(key, []) if is_end(e["outcome"])]
        wanted = tuple(sorted(set(capabilities.pop(key[1], []))))
        made.add(EXEC, _execution(key, row, attempts.get(key, []), outcomes, wanted, made))
    for ident in capabilities:
        made.left_out("ff_execution_capabilities", ident, "its execution is not in the database")
    _import_keys(made)
    for row in known(original.rows(ATTEMPT), ATTEMPT, made):
        made.add(ATTEMPT, _attempt(row, made.executions[key_of(row)]))
    for lane in original.rows("ff_lane_registry"):
        made.add("ff_lane_registry", {**lane, "updated_at_ms": lane["registered_at_ms"]})


def _execution(
    key: Key,
    row: Row,
    attempts: list[Row],
    ends: list[str],
    capabilities: tuple[str, ...],
    made: Imported,
) -> Row:
    raw = json_of(row["raw_fields"])
    last = max(attempts, key=lambda each: each["attempt_index"], default=None)
    state = _state(key, row, last, ends, made)
    policy, refused = _policy(key, row["policy"], made)
    rest = {name: value for name, value in raw.items() if name not in _FIELDS}
    moved = whole(raw.get("last_mutation_at"))
    delayed = state["eligibility_state"] == "not_eligible_until_time"
    return {
        "partition_key": key[0],
        "execution_id": key[1],
        **copied(row, *_COLUMNS),
        **state,
        **_described(key, raw, made),
        **_governed(policy),
        "flow_id": optional_uuid(row["flow_id"]),
        "priority": _priority(key, row["priority"], made),
        "raw_fields": text_of(rest | refused),
        "required_capabilities": capabilities,
        "deadline_at_ms": None if delayed else row["deadline_at_ms"],
        "deadline_origin": None if delayed or row["deadline_at_ms"] is None else "argument",
        "delay_until_ms": row["deadline_at_ms"] or moved if delayed else None,
        "last_mutation_at": moved,
        "last_transition_at": moved,
        "attempt_index": 0 if last is None else last["attempt_index"],
        "total_attempt_count": len(attempts),
        "retry_count": _retries(row, len(attempts), state["attempt_state"]),
        "replay_count": _replays(key, state, whole(raw.get("replay_count")), ends, made),
        "lease_epoch": 0 if last is None else last["lease_epoch"],
        **(_interrupted(key, last) if state["attempt_state"] == "attempt_interrupted" else {}),
    }


def _described(key: Key, raw: Row, made: Imported) -> Row:
    """What the original keeps as fields of one JSON column."""
    tags = {str(name): str(value) for name, value in (raw.get("tags") or {}).items()}
    return {
        "namespace": _namespace(key, raw, made),
        "execution_kind": str(raw.get("execution_kind") or ""),
        "creator_identity": str(raw.get("creator_identity") or ""),
        "payload_encoding": raw.get("payload_encoding"),
        "idempotency_key": raw.get("idempotency_key") or None,
        "last_failure_message": raw.get("last_failure_message"),
        "instance_tag": tags.get(INSTANCE_TAG_KEY),
        "tags": encode_tags(tags),
    }


def _governed(policy: ExecutionPolicy | None) -> Row:
    """The policy, and the columns that follow from it."""
    if policy is None:
        return {"policy": None, "budget_ids": (), "quota_policy_id": None, "gate": ""}
    quota, timeout = policy.quota_policy_id, policy.attempt_timeout_ms
    limits = Attached(tuple(policy.budget_ids), None if quota is None else UUID(quota))
    return {
        "policy": encode_policy(policy),
        "budget_ids": limits.budget_ids,
        "quota_policy_id": limits.quota_policy_id,
        "gate": limits.gate,
        "max_reclaim_count": policy.reclaim_limit,
        "attempt_timeout_ms": timeout,
        "retention_ttl_ms": policy.retention_ttl_ms,
        "failed_retention_ttl_ms": policy.failed_retention_ttl_ms,
    }


def _retries(row: Row, attempts: int, attempt_state: str) -> int:
    """A retry counts when it is scheduled, before its attempt."""
    begun = attempts - (attempt_state != "pending_retry_attempt")
    reclaims: int = row["lease_reclaim_count"]
    return max(0, begun - reclaims)


def _namespace(key: Key, raw: Row, made: Imported) -> str:
    found = str(raw.get("namespace") or "default")
    if raw.get("namespace") != found:
        made.changed(EXEC, key[1], f"without a namespace: imported into {found!r}")
    return found


def _priority(key: Key, stated: int, made: Imported) -> int:
    found: int = clamp_priority(stated)
    if found != stated:
        made.changed(EXEC, key[1], f"its priority {stated} becomes {found}")
    return found


def _interrupted(key: Key, last: Row | None) -> Row:
    """The next claim continues the attempt."""
    ident = None if last is None else attempt_id(key, last["attempt_index"])
    return {"interrupt_cause": "suspended", "current_attempt_id": ident}


def attempt_id(key: Key, index: int) -> UUID:
    """The original has no ids of attempts. The same one results each time."""
    return uuid5(key[1], f"attempt {index}")


def _state(key: Key, row: Row, last: Row | None, ends: list[str], made: Imported) -> Row:
    """The original stores words and combinations that this state vector does not have."""
    phase = canonical("lifecycle_phase", row["lifecycle_phase"])
    if phase == "terminal":
        return _ended(key, row, last, ends, made)
    stored = canonical("attempt_state", row["attempt_state"])
    state = stored if last is None or stored != "pending_first_attempt" else "pending_retry_attempt"
    if phase == "suspended":
        return {
            **entering("SUSPENDED", reason="waiting_for_signal"),
            "attempt_state": "attempt_interrupted",
        }
    if phase == "active":
        made.changed(EXEC, key[1], "its lease is not continued: it waits for a worker again")
        return {**entering("READY"), "attempt_state": "attempt_interrupted"}
    if state not in VECTORS["READY"].attempt_states:
        state = "pending_first_attempt" if last is None else "attempt_interrupted"
    eligibility = canonical("eligibility_state", row["eligibility_state"])
    if eligibility == "not_eligible_until_time":
        return {**entering("DELAYED"), "attempt_state": state}
    if eligibility not in ("eligible_now", *_BLOCKED):
        made.changed(EXEC, key[1], f"{eligibility}: a claim checks its limits and routes again")
    return {**entering(_BLOCKED.get(eligibility, "READY")), "attempt_state": state}


def _ended(key: Key, row: Row, last: Row | None, ends: list[str], made: Imported) -> Row:
    """The original has no outcome in this row, and may leave its public state behind."""
    if row["lifecycle_phase"] == "cancelled":
        outcome: str | None = "cancelled"
    else:
        told = [row["public_state"], *(() if last is None else (last["outcome"],)), *ends[-1:]]
        outcome = next(
            (found for w in told if w and (found := _OUTCOME_OF.get(w) or _OUTCOMES.get(w))), None
        )
    if outcome is None:
        outcome = "failed"
        made.changed(EXEC, key[1], "its outcome is not recorded: imported as failed")
    if row["terminal_at_ms"] is None:
        made.changed(EXEC, key[1], "its end has no time: imported as ended at its last change")
    ended_at = row["terminal_at_ms"]
    if ended_at is None:
        ended_at = whole(json_of(row["raw_fields"]).get("last_mutation_at"))
    return {
        **entering("ENDED", outcome=outcome),
        "terminal_outcome": outcome,
        "attempt_state": "none" if last is None else "attempt_terminal",
        "terminal_at_ms": ended_at,
    }


def _replays(key: Key, state: Row, stated: int, ends: list[str], made: Imported) -> int:
    """Each replay follows an end that has an event; the last end may lack its event."""
    recorded = len(ends)
    runs = state["terminal_outcome"] == "none"
    expected = [recorded] if runs else [recorded - 1, recorded]
    if stated in expected:
        return stated
    found = max(0, expected[0])
    made.changed(EXEC, key[1], f"{stated} replays, of which {found} have an event of their end")
    return found


def _policy(
    key: Key, text: str | None, made: Imported
) -> tuple[ExecutionPolicy | None, dict[str, Any]]:
    """The policy without the parts that this engine refuses; then its text is kept beside it."""
    if not text:
        return None, {}
    try:
        return parse_policy(text), {}
    except EngineError:
        tree = {name: _nearest(name, value) for name, value in json_of(text).items()}
    accepted = {}
    for name, value in tree.items():
        try:
            parse_policy({name: value})
            accepted[name] = value
        except EngineError as error:
            made.changed(EXEC, key[1], f"its policy has no {name}, which is refused: {error}")
    if len(accepted) == len(tree):
        made.changed(EXEC, key[1], "numbers of its policy become the nearest accepted ones")
    return parse_policy(accepted), {"policy": text}


def _nearest(name: str, value: Any) -> Any:
    """Numbers that the original accepts and this engine does not, as the server takes them."""
    if isinstance(value, dict):
        return {inner: _nearest(inner, part) for inner, part in value.items()}
    if isinstance(value, int) and name.endswith("_ms"):
        return min(value, MAX_DURATION_MS)
    if isinstance(value, int) and name == "retention_maxlen":
        return min(value, MAX_RETAINED_FRAMES)
    return max(value, 1) if isinstance(value, float) and name == "multiplier" else value


def _import_keys(made: Imported) -> None:
    """The original may give one key to several executions: the oldest one keeps it."""
    holders: dict[tuple[str, str], UUID] = {}
    for row in made.rows[EXEC]:
        key = row["idempotency_key"]
        if key is None:
            continue
        holder = holders.setdefault((row["namespace"], key), row["execution_id"])
        if holder != row["execution_id"]:
            row["idempotency_key"] = None
            row["raw_fields"] = text_of(json_of(row["raw_fields"]) | {"idempotency_key": key})
            made.changed(EXEC, row["execution_id"], f"its key belongs to {holder}")
            continue
        expires = row["created_at_ms"] + DEFAULT_DEDUP_WINDOW_MS
        made.add(
            "ff_idempotency",
            {
                **copied(row, "namespace", "idempotency_key", "partition_key", "execution_id"),
                "expires_at_ms": expires,
            },
        )


def _attempt(row: Row, execution: Row) -> Row:
    is_last = row["attempt_index"] == execution["attempt_index"]
    outcome = _OUTCOMES.get(row["outcome"] or "")
    state = _ATTEMPT_STATES.get(row["outcome"] or "", "interrupted_reclaimed")
    ended_at = row["terminal_at_ms"]
    if is_last and execution["terminal_at_ms"] is not None and outcome is None:
        outcome = execution["terminal_outcome"]
        state = _ATTEMPT_STATES.get(outcome, "ended_failure")
        ended_at = execution["terminal_at_ms"]
    if is_last and execution["attempt_state"] == "attempt_interrupted":
        state, outcome, ended_at = "suspended", None, None
    raw = json_of(row["raw_fields"])
    if row["outcome"] not in (None, outcome):
        raw["outcome"] = row["outcome"]
    return {
        "partition_key": row["partition_key"],
        "execution_id": execution["execution_id"],
        "attempt_id": attempt_id(key_of(row), row["attempt_index"]),
        **copied(row, "attempt_index", "worker_id", "worker_instance_id"),
        **copied(row, "lease_epoch", "lease_expires_at_ms"),
        "started_at_ms": row["started_at_ms"],
        "created_at_ms": row["started_at_ms"] or execution["created_at_ms"],
        "attempt_state": state,
        "outcome": outcome,
        "terminal_at_ms": ended_at,
        "usage": row["usage"] or '{"last_usage_report_seq":0}',
        "policy": row["policy"],
        "raw_fields": text_of(raw),
    }
