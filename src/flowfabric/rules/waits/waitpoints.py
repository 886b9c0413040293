"""Mailboxes for signals: created ahead or with a suspension, bound to it, closed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from flowfabric.codec.token import sealed
from flowfabric.errors import Contention, ContentionKind, StateError, StateKind
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import HandleFields
from flowfabric.model.policy import stored_policy
from flowfabric.model.waitpoint import (
    MAX_SIGNALS,
    Binding,
    BoundWaitpoint,
    DeliverSignalArgs,
    SuspendArgs,
    UsePending,
    Waitpoint,
)
from flowfabric.plan import Add, After, Arg, Cond, Form, Insert, Now, Plan, Update, UpdateMany, Wake
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.fragments import EXEC, HELD, SIGNAL, WAITPOINT
from flowfabric.rules.leases.attempts import held_by
from flowfabric.rules.waits import conditions

_STILL_HELD = Update(EXEC, HELD, {"last_mutation_at": Now()})
HOLD = Form("hold", _STILL_HELD)
_NEW_WAITPOINT = {
    column: Arg(column)
    for column in (
        "partition_key",
        "waitpoint_id",
        "execution_id",
        "token_kid",
        "token_digest",
        "created_at_ms",
        "expires_at_ms",
        "waitpoint_key",
        "attempt_index",
        "payload_schema",
    )
}
CREATE_WAITPOINT = Form(
    "create_waitpoint",
    _STILL_HELD,
    Insert(
        WAITPOINT,
        {
            **_NEW_WAITPOINT,
            "state": "pending",
            "required_signal_names": Arg("required_signal_names"),
            "approvers": Arg("approvers"),
        },
    ),
    Wake("waitpoint_expiry", at=Arg("expires_at_ms")),
)
_ACTIVE = {
    "state": "active",
    "activated_at_ms": Arg("now"),
    "suspension_id": Arg("suspension_id"),
    "required_signal_names": Arg("required_signal_names"),
}
BOUND = Insert(WAITPOINT, {**_NEW_WAITPOINT, **_ACTIVE})
BIND_WAITPOINT = Form("bind_waitpoint", BOUND)
_WAITPOINT_KEY = (
    Cond("partition_key", "=", Arg("partition_key")),
    Cond("waitpoint_id", "=", Arg("waitpoint_id")),
)
WAITPOINT_UNCHANGED = (*_WAITPOINT_KEY, Cond("version", "=", Arg("version")))
REBIND_WAITPOINT = Form(
    "rebind_waitpoint",
    Update(
        WAITPOINT,
        WAITPOINT_UNCHANGED,
        {
            **_ACTIVE,
            **{
                c: Arg(c)
                for c in (
                    "token_kid",
                    "token_digest",
                    "created_at_ms",
                    "expires_at_ms",
                    "waitpoint_key",
                    "attempt_index",
                )
            },
            "payload_schema": Arg("payload_schema"),
            **dict.fromkeys(
                ("last_signal_at_ms", "satisfied_at_ms", "closed_at_ms", "close_reason")
            ),
            "version": Add(1),
        },
    ),
)
ACTIVATE_WAITPOINT = Form(
    "activate_waitpoint",
    Update(
        WAITPOINT,
        WAITPOINT_UNCHANGED,
        {**_ACTIVE, "expires_at_ms": Arg("expires_at_ms"), "version": Add(1)},
    ),
)
CONSUME_WAITPOINT = Form(
    "consume_waitpoint",
    Update(
        WAITPOINT,
        WAITPOINT_UNCHANGED,
        {
            "state": "closed",
            "close_reason": "resumed",
            "satisfied_at_ms": Arg("now"),
            "closed_at_ms": Arg("now"),
            "version": Add(1),
        },
    ),
)
TAG_SIGNALS = Form(
    "tag_signals",
    Update(WAITPOINT, WAITPOINT_UNCHANGED, {"version": Add(1)}),
    UpdateMany(
        SIGNAL,
        (
            Cond("partition_key", "=", After("partition_key")),
            Cond("execution_id", "=", After("execution_id")),
            Cond("waitpoint_id", "=", After("waitpoint_id")),
        ),
        {"suspension_id": Arg("suspension_id")},
    ),
)
CLOSE_WAITPOINT = Form(
    "close_waitpoint",
    Update(
        WAITPOINT,
        WAITPOINT_UNCHANGED,
        {
            "state": "closed",
            "closed_at_ms": Now(),
            "close_reason": Arg("reason"),
            "version": Add(1),
        },
    ),
)
# A signal is guarded by the version of its execution: one that was decided before the close must look again.
LOOK_AGAIN = Form(
    "look_again",
    Update(
        EXEC,
        (
            Cond("partition_key", "=", Arg("partition_key")),
            Cond("execution_id", "=", Arg("execution_id")),
            Cond("current_suspension_id", "=", Arg("suspension_id")),
        ),
        {"version": Add(1), "last_mutation_at": Now()},
    ),
)


def bind(
    fields: HandleFields,
    args: SuspendArgs,
    binding: Binding,
    bound: BoundWaitpoint,
    stored: Waitpoint | None,
    now: int,
    kid: str,
    *,
    buffered: bool,
) -> list[Plan]:
    """A waitpoint takes part in a suspension. `buffered`: signals have arrived on it already."""
    ident = fields.execution_id
    names = json.dumps(
        conditions.required_names(args.resume_condition, bound.waitpoint_key), ensure_ascii=False
    )
    values = {
        "partition_key": ident.partition_index,
        "waitpoint_id": binding.waitpoint_id,
        "suspension_id": args.suspension_id,
        "required_signal_names": names,
        "expires_at_ms": args.timeout_at,
        "now": now,
    }
    if isinstance(binding, UsePending):
        assert stored is not None
        activate = ACTIVATE_WAITPOINT(**values, version=stored.version)
        if not buffered:
            return [activate]
        tag = {**values, "version": stored.version + 1}
        return [activate, TAG_SIGNALS(**{name: tag[name] for name in TAG_SIGNALS.args})]
    fresh = {
        **values,
        "execution_id": ident.uuid,
        "token_kid": kid,
        "token_digest": sealed(bound.waitpoint_token),
        "created_at_ms": now,
        "waitpoint_key": bound.waitpoint_key,
        "attempt_index": fields.attempt_index,
        "payload_schema": encode_schema(binding.payload_schema),
    }
    if stored is None:
        return [BIND_WAITPOINT(**fresh)]
    again = {**fresh, "version": stored.version}
    return [REBIND_WAITPOINT(**{name: again[name] for name in REBIND_WAITPOINT.args})]


def create_waitpoint(
    fields: HandleFields,
    waitpoint_id: UUID,
    key: str,
    token: str,
    kid: str,
    now: int,
    expires_at: int,
    names: Sequence[str] = (),
    payload_schema: dict[str, Any] | None = None,
    approvers: Sequence[str] = (),
) -> Plan:
    """`names` are the only signals it takes while it is pending; none means any."""
    return CREATE_WAITPOINT(
        **held_by(fields),
        waitpoint_id=waitpoint_id,
        token_kid=kid,
        token_digest=sealed(token),
        created_at_ms=now,
        expires_at_ms=expires_at,
        waitpoint_key=key,
        required_signal_names=json.dumps(list(names), ensure_ascii=False),
        payload_schema=encode_schema(payload_schema),
        approvers=json.dumps(list(approvers), ensure_ascii=False),
    )


def encode_schema(schema: dict[str, Any] | None) -> str | None:
    return None if schema is None else json.dumps(schema, separators=(",", ":"))


def consume(fields: HandleFields, stored: Waitpoint, now: int) -> list[Plan]:
    """A pending waitpoint whose signals were enough, if the lease still holds; nothing else changes."""
    held = HOLD(**held_by(fields))
    consumed = CONSUME_WAITPOINT(
        partition_key=stored.partition_key,
        waitpoint_id=stored.waitpoint_id,
        version=stored.version,
        now=now,
    )
    return [held, consumed]


def close(stored: Waitpoint | None, execution: UUID, reason: str) -> Decision:
    """Ends a waitpoint, not the suspension it may belong to."""
    if stored is None or stored.execution_id != execution:
        return Reject(Contention(ContentionKind.WAITPOINT_NOT_FOUND))
    if stored.state in ("closed", "expired"):
        return Return("already_closed")
    if not stored.is_open:
        return Reject(StateError(StateKind.WAITPOINT_NOT_OPEN, stored.state))
    first = (_look_again(stored),) if stored.state == "active" else ()
    return Commit(closing(stored, reason), "closed", first)


def _look_again(stored: Waitpoint) -> Plan:
    return LOOK_AGAIN(
        partition_key=stored.partition_key,
        execution_id=stored.execution_id,
        suspension_id=stored.suspension_id,
    )


def closing(stored: Waitpoint, reason: str) -> Plan:
    return CLOSE_WAITPOINT(
        partition_key=stored.partition_key,
        waitpoint_id=stored.waitpoint_id,
        version=stored.version,
        reason=reason,
    )


def signal_limit(policy_text: str | None, ident: ExecutionId, args: DeliverSignalArgs) -> int:
    """How many signals an execution takes in all: the smaller of what its policy and this call say; 0 for any number."""
    policy = stored_policy(policy_text, ident)
    stated = MAX_SIGNALS if policy is None else policy.max_signals_per_execution
    limits = (
        args.max_signals_per_execution,
        0 if stated == MAX_SIGNALS else stated,
    )  # the default is that of the call
    return min((each for each in limits if each), default=0)
