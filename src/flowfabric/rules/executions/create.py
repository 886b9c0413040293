"""Creating executions and the lanes they wait in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from flowfabric.ids import INSTANCE_TAG_KEY, ExecutionId
from flowfabric.model.execution import MAX_PRIORITY, Created, CreateExecutionArgs
from flowfabric.model.policy import DEFAULT_DEDUP_WINDOW_MS, ExecutionPolicy, encode_policy
from flowfabric.model.quota import Attached
from flowfabric.model.state import PublicState
from flowfabric.plan import Absent, AnyOf, Arg, Cond, Form, Insert, Now, Plan, Update, Wake
from flowfabric.rules.fragments import EXEC, LANE
from flowfabric.rules.limits.limit_scopes import NOTHING
from flowfabric.rules.states import entering

_GIVEN = (
    "partition_key",
    "execution_id",
    "lane_id",
    "namespace",
    "instance_tag",
    "execution_kind",
    "creator_identity",
    "idempotency_key",
    "payload_encoding",
    "required_capabilities",
    "budget_ids",
    "quota_policy_id",
    "gate",
    "priority",
    "deadline_at_ms",
    "deadline_origin",
    "max_reclaim_count",
    "attempt_timeout_ms",
    "retention_ttl_ms",
    "failed_retention_ttl_ms",
    "tags",
    "policy",
    "payload",
)
NEW: dict[str, Any] = {
    **{column: Arg(column) for column in _GIVEN},
    "attempt_state": "pending_first_attempt",
    "created_at_ms": Arg("now"),
    "last_transition_at": Arg("now"),
    "last_mutation_at": Arg("now"),
}
LANE_IS_OPEN = (
    Absent(
        LANE, (Cond("lane_id", "=", Arg("lane_id")), Cond("state", "in", ("draining", "disabled")))
    ),
)

CREATE_READY = Form(
    "create_ready",
    Insert(EXEC, {**NEW, **entering("READY")}, LANE_IS_OPEN),
    Wake("ready", Arg("lane_id")),
    Wake("deadline", at=Arg("deadline_at_ms")),
)
CREATE_DELAYED = Form(
    "create_delayed",
    Insert(
        EXEC,
        {
            **NEW,
            **entering("DELAYED", detail=Arg("blocking_detail")),
            "delay_until_ms": Arg("delay_until_ms"),
        },
        LANE_IS_OPEN,
    ),
    Wake("delayed", at=Arg("delay_until_ms")),
    Wake("deadline", at=Arg("deadline_at_ms")),
)
KEY = "ff_idempotency"
OF_KEY = (
    Cond("namespace", "=", Arg("namespace")),
    Cond("idempotency_key", "=", Arg("idempotency_key")),
)
KEY_TIME_IS_OVER = AnyOf((Cond("expires_at_ms", "is null"), Cond("expires_at_ms", "<=", Now())))
"""A key without a time of its own outlived it and goes with its execution."""
TAKE_KEY = Form(
    "take_idempotency_key",
    Insert(
        KEY,
        {
            c: Arg(c)
            for c in (
                "namespace",
                "idempotency_key",
                "partition_key",
                "execution_id",
                "expires_at_ms",
                "digest",
            )
        },
    ),
)
RETAKE_KEY = Form(
    "retake_idempotency_key",
    Update(
        KEY,
        (
            *OF_KEY,
            KEY_TIME_IS_OVER,
            Cond("execution_id", "=", Arg("holder")),
            Absent(
                EXEC,
                (
                    Cond("partition_key", "=", Arg("holder_partition")),
                    Cond("execution_id", "=", Arg("holder")),
                    *OF_KEY,
                ),
            ),
        ),
        {c: Arg(c) for c in ("partition_key", "execution_id", "expires_at_ms", "digest")},
    ),
)
REGISTER_LANE = Form(
    "register_lane",
    Insert(
        LANE,
        {
            "lane_id": Arg("lane_id"),
            "registered_at_ms": Now(),
            "registered_by": Arg("registered_by"),
            "state": "active",
            "updated_at_ms": Now(),
        },
    ),
)
SET_LANE_STATE = Form(
    "set_lane_state",
    Update(
        LANE,
        (Cond("lane_id", "=", Arg("lane_id")),),
        {"state": Arg("state"), "updated_at_ms": Now()},
    ),
    Wake("ready", Arg("lane_id")),
)


_NO_POLICY = ExecutionPolicy()


class Creation(Struct, frozen=True, gc=False):
    """What a create asks of the store: perhaps a key to take first, and the row."""

    plan: Plan
    key: Plan | None
    result: Created
    created_at_ms: int


def creation_values(
    args: CreateExecutionArgs,
    policy: ExecutionPolicy | None,
    engine_now_ms: int,
    limits: Attached = NOTHING,
) -> tuple[dict[str, Any], int | None]:
    """The columns of a new execution, and when it may start at the earliest. `args` are checked already."""
    now = engine_now_ms if args.now is None else args.now
    ident = args.execution_id
    plain = policy or _NO_POLICY
    delay_until = args.delay_until if args.delay_until is not None else plain.delay_until
    deadline, origin = _deadline(args, plain, now)
    values = {
        "partition_key": ident.partition_index,
        "execution_id": ident.uuid,
        "lane_id": args.lane_id,
        "namespace": args.namespace,
        "instance_tag": args.tags.get(INSTANCE_TAG_KEY),
        "execution_kind": args.execution_kind,
        "creator_identity": args.creator_identity,
        "idempotency_key": args.idempotency_key or None,
        "payload_encoding": args.payload_encoding,
        "required_capabilities": plain.required_capabilities,
        "budget_ids": limits.budget_ids,
        "quota_policy_id": limits.quota_policy_id,
        "gate": limits.gate,
        "priority": clamp_priority(args.priority),
        "deadline_at_ms": deadline,
        "deadline_origin": origin,
        "max_reclaim_count": None if policy is None else policy.reclaim_limit,
        "attempt_timeout_ms": plain.attempt_timeout_ms,
        "retention_ttl_ms": plain.retention_ttl_ms,
        "failed_retention_ttl_ms": plain.failed_retention_ttl_ms,
        "tags": "{}"
        if not args.tags
        else json.dumps(dict(sorted(args.tags.items())), separators=(",", ":"), ensure_ascii=False),
        "policy": None if policy is None else encode_policy(policy),
        "payload": args.input_payload,
        "now": now,
    }
    return values, delay_until


def create(
    args: CreateExecutionArgs,
    policy: ExecutionPolicy | None,
    engine_now_ms: int,
    limits: Attached = NOTHING,
) -> Creation:
    """Delayed only when the time lies ahead of the engine's clock."""
    ident = args.execution_id
    values, delay_until = creation_values(args, policy, engine_now_ms, limits)
    now = values["now"]
    if delay_until is not None and delay_until > engine_now_ms:
        later = {"delay_until_ms": delay_until, "blocking_detail": f"delayed until {delay_until}"}
        plan, state = CREATE_DELAYED(**values, **later), PublicState.DELAYED
    else:
        plan, state = CREATE_READY.given(values), PublicState.WAITING
    if not args.idempotency_key:
        return Creation(plan, None, Created(ident, state), now)
    key = {
        "namespace": args.namespace,
        "idempotency_key": args.idempotency_key,
        "partition_key": ident.partition_index,
        "execution_id": ident.uuid,
        "expires_at_ms": now + ((policy or _NO_POLICY).dedup_window_ms or DEFAULT_DEDUP_WINDOW_MS),
        "digest": args.key_digest,
    }
    return Creation(plan, TAKE_KEY(**key), Created(ident, state), now)


def retake(take: Plan, holder: ExecutionId) -> Plan:
    """Takes a key over from an execution that is no longer kept, once its time is over."""
    values = dict(zip(take.form.args, take.values, strict=True))
    return RETAKE_KEY(**values, holder_partition=holder.partition_index, holder=holder.uuid)


def is_in_time(expires_at_ms: int | None, now_ms: int) -> bool:
    """Whether a key holds by its own time; afterwards it holds as long as its execution is kept."""
    return expires_at_ms is not None and expires_at_ms > now_ms


def repeated(first: Creation, others: Iterable[CreateExecutionArgs]) -> Iterator[Creation]:
    """Creates without a key that differ from the first in nothing but their ids and payloads."""
    form, values = first.plan.form, list(first.plan.values)
    partition_at, ident_at, payload_at = map(
        form.args.index, ("partition_key", "execution_id", "payload")
    )
    for args in others:
        ident = args.execution_id
        values[partition_at] = ident.partition_index
        values[ident_at] = ident.uuid
        values[payload_at] = args.input_payload
        plan = Plan(form, tuple(values))
        yield Creation(plan, None, Created(ident, first.result.public_state), first.created_at_ms)


def clamp_priority(priority: int) -> int:
    return priority if 0 <= priority <= MAX_PRIORITY else 0 if priority < 0 else MAX_PRIORITY


def _deadline(
    args: CreateExecutionArgs, policy: ExecutionPolicy, now: int
) -> tuple[int | None, str | None]:
    if args.execution_deadline_at:
        return args.execution_deadline_at, "argument"
    if policy.execution_deadline_ms:
        return now + policy.execution_deadline_ms, "policy"
    return None, None
