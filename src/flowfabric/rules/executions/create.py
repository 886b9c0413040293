"""The creation of executions, their idempotency keys, and lanes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from flowfabric.ids import INSTANCE_TAG_KEY, ExecutionId
from flowfabric.model.execution import MAX_PRIORITY, Created, CreateExecutionArgs
from flowfabric.model.policy import DEFAULT_DEDUP_WINDOW_MS, ExecutionPolicy, encode_policy
from flowfabric.model.quota import Attached
from flowfabric.model.state import PublicState
from flowfabric.plan import Absent, AnyOf, Arg, Cond, Form, Insert, Now, Plan, Update, Wake
from flowfabric.rules.columns import by_args, from_args
from flowfabric.rules.fragments import EXEC, LANE, Columns
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
NEW: Columns = {
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

_READY: Columns = {**NEW, **entering("READY")}
_DELAYED: Columns = {
    **NEW,
    **entering("DELAYED", detail=Arg("blocking_detail")),
    "delay_until_ms": Arg("delay_until_ms"),
}
_DEADLINE = Wake("deadline", at=Arg("deadline_at_ms"))
_CLAIMABLE = (Wake("ready", Arg("lane_id")), _DEADLINE)
_CLAIMABLE_LATER = (Wake("delayed", at=Arg("delay_until_ms")), _DEADLINE)
CREATE_READY = Form("create_ready", Insert(EXEC, _READY, LANE_IS_OPEN), *_CLAIMABLE)
CREATE_DELAYED = Form("create_delayed", Insert(EXEC, _DELAYED, LANE_IS_OPEN), *_CLAIMABLE_LATER)

KEY = "ff_idempotency"
OF_KEY = by_args("namespace", "idempotency_key")
KEY_TIME_IS_OVER = AnyOf((Cond("expires_at_ms", "is null"), Cond("expires_at_ms", "<=", Now())))
"""A key without an expiry has outlived it and is removed with its execution."""
_KEY_HOLDER = {c: Arg(c) for c in ("partition_key", "execution_id", "expires_at_ms", "digest")}
_TAKE_KEY = Insert(KEY, {**from_args("namespace", "idempotency_key"), **_KEY_HOLDER}, LANE_IS_OPEN)
CREATE_READY_WITH_KEY = Form("create_ready_with_key", _TAKE_KEY, Insert(EXEC, _READY), *_CLAIMABLE)
CREATE_DELAYED_WITH_KEY = Form(
    "create_delayed_with_key", _TAKE_KEY, Insert(EXEC, _DELAYED), *_CLAIMABLE_LATER
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
        _KEY_HOLDER,
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
    Update(LANE, by_args("lane_id"), {"state": Arg("state"), "updated_at_ms": Now()}),
    Wake("ready", Arg("lane_id")),
)


_NO_POLICY = ExecutionPolicy()


class Creation(Struct, frozen=True, gc=False):
    """The plan of a create. It takes the idempotency key, if there is one, and adds the row."""

    plan: Plan
    result: Created
    created_at_ms: int


def creation_values(
    args: CreateExecutionArgs,
    policy: ExecutionPolicy | None,
    engine_now_ms: int,
    limits: Attached = NOTHING,
) -> tuple[Columns, int | None]:
    """The columns of a new execution and its earliest start. `args` are validated."""
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
        "tags": encode_tags(args.tags),
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
    """The execution is delayed only if its earliest start is ahead of the engine's clock."""
    ident, now = args.execution_id, engine_now_ms if args.now is None else args.now
    values, delay_until = creation_values(args, policy, engine_now_ms, limits)
    ready, delayed = CREATE_READY, CREATE_DELAYED
    if args.idempotency_key:
        ready, delayed = CREATE_READY_WITH_KEY, CREATE_DELAYED_WITH_KEY
        window = (policy or _NO_POLICY).dedup_window_ms or DEFAULT_DEDUP_WINDOW_MS
        values |= {"expires_at_ms": now + window, "digest": args.key_digest}
    if delay_until is None or delay_until <= engine_now_ms:
        return Creation(ready.given(values), Created(ident, PublicState.WAITING), now)
    values |= {"delay_until_ms": delay_until, "blocking_detail": f"delayed until {delay_until}"}
    return Creation(delayed.given(values), Created(ident, PublicState.DELAYED), now)


WITHOUT_KEY = {CREATE_READY_WITH_KEY: CREATE_READY, CREATE_DELAYED_WITH_KEY: CREATE_DELAYED}


def retake(plan: Plan, holder: ExecutionId) -> tuple[Plan, Plan]:
    """A create that takes over an expired key whose execution has been removed."""
    values = dict(zip(plan.form.args, plan.values, strict=True))
    key = RETAKE_KEY.given(
        {**values, "holder_partition": holder.partition_index, "holder": holder.uuid}
    )
    return key, WITHOUT_KEY[plan.form].given(values)


def is_in_time(expires_at_ms: int | None, now_ms: int) -> bool:
    """Whether the key has not expired. An expired key holds as long as its execution is kept."""
    return expires_at_ms is not None and expires_at_ms > now_ms


def repeated(first: Creation, others: Iterable[CreateExecutionArgs]) -> Iterator[Creation]:
    """Creates without a key that differ from the first only in their ids and payloads."""
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
        yield Creation(plan, Created(ident, first.result.public_state), first.created_at_ms)


def clamp_priority(priority: int) -> int:
    return min(max(priority, 0), MAX_PRIORITY)


def encode_tags(tags: Mapping[str, str]) -> str:
    if not tags:
        return "{}"
    return json.dumps(dict(sorted(tags.items())), separators=(",", ":"), ensure_ascii=False)


def _deadline(
    args: CreateExecutionArgs, policy: ExecutionPolicy, now: int
) -> tuple[int | None, str | None]:
    if args.execution_deadline_at:
        return args.execution_deadline_at, "argument"
    if policy.execution_deadline_ms:
        return now + policy.execution_deadline_ms, "policy"
    return None, None
