"""Waitpoints: created ahead or with a suspension, bound to it, closed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

from flowfabric import plan as p
from flowfabric.codec.token import sealed
from flowfabric.errors import Contention, ContentionKind, StateError, StateKind
from flowfabric.ids import ExecutionId
from flowfabric.model import waitpoint as model
from flowfabric.model.lease import HandleFields
from flowfabric.model.policy import stored_policy
from flowfabric.rules.columns import by_args, by_row, from_args
from flowfabric.rules.decision import Commit, Decision, Reject, Return
from flowfabric.rules.fragments import EXEC, HELD, KEY, SIGNAL, WAITPOINT
from flowfabric.rules.leases.attempts import held_by
from flowfabric.rules.waits import conditions

_STILL_HELD = p.Update(EXEC, HELD, {"last_mutation_at": p.Now()})
HOLD = p.Form("hold", _STILL_HELD)
_BOUND_COLUMNS = (
    "token_kid",
    "token_digest",
    "created_at_ms",
    "expires_at_ms",
    "waitpoint_key",
    "attempt_index",
    "payload_schema",
)
_NEW_WAITPOINT = from_args("partition_key", "waitpoint_id", "execution_id", *_BOUND_COLUMNS)
CREATE_WAITPOINT = p.Form(
    "create_waitpoint",
    _STILL_HELD,
    p.Insert(
        WAITPOINT,
        {**_NEW_WAITPOINT, "state": "pending", **from_args("required_signal_names", "approvers")},
    ),
    p.Wake("waitpoint_expiry", at=p.Arg("expires_at_ms")),
)
_ACTIVE = {
    "state": "active",
    "activated_at_ms": p.Arg("now"),
    **from_args("suspension_id", "required_signal_names"),
}
BOUND = p.Insert(WAITPOINT, {**_NEW_WAITPOINT, **_ACTIVE})
BIND_WAITPOINT = p.Form("bind_waitpoint", BOUND)
WAITPOINT_UNCHANGED = by_args("partition_key", "waitpoint_id", "version")
REBIND_WAITPOINT = p.Form(
    "rebind_waitpoint",
    p.Update(
        WAITPOINT,
        WAITPOINT_UNCHANGED,
        {
            **_ACTIVE,
            **from_args(*_BOUND_COLUMNS),
            **dict.fromkeys(
                ("last_signal_at_ms", "satisfied_at_ms", "closed_at_ms", "close_reason")
            ),
            "version": p.Add(1),
        },
    ),
)
ACTIVATE_WAITPOINT = p.Form(
    "activate_waitpoint",
    p.Update(
        WAITPOINT,
        WAITPOINT_UNCHANGED,
        {**_ACTIVE, "expires_at_ms": p.Arg("expires_at_ms"), "version": p.Add(1)},
    ),
)
SATISFIED = {
    "state": "closed",
    "close_reason": "resumed",
    "satisfied_at_ms": p.Arg("now"),
    "closed_at_ms": p.Arg("now"),
    "version": p.Add(1),
}
CONSUME_WAITPOINT = p.Form(
    "consume_waitpoint",
    p.Update(
        WAITPOINT,
        WAITPOINT_UNCHANGED,
        SATISFIED,
    ),
)
TAG_SIGNALS = p.Form(
    "tag_signals",
    p.Update(WAITPOINT, WAITPOINT_UNCHANGED, {"version": p.Add(1)}),
    p.UpdateMany(
        SIGNAL,
        by_row("partition_key", "execution_id", "waitpoint_id"),
        {"suspension_id": p.Arg("suspension_id")},
    ),
)
CLOSE_WAITPOINT = p.Form(
    "close_waitpoint",
    p.Update(
        WAITPOINT,
        WAITPOINT_UNCHANGED,
        {
            "state": "closed",
            "closed_at_ms": p.Now(),
            "close_reason": p.Arg("reason"),
            "version": p.Add(1),
        },
    ),
)
# The version of the execution guards a signal: one that was decided before the close is refused.
BUMP_VERSION = p.Form(
    "look_again",
    p.Update(
        EXEC,
        (*KEY, p.Cond("current_suspension_id", "=", p.Arg("suspension_id"))),
        {"version": p.Add(1), "last_mutation_at": p.Now()},
    ),
)


def bind(
    fields: HandleFields,
    args: model.SuspendArgs,
    binding: model.Binding,
    bound: model.BoundWaitpoint,
    stored: model.Waitpoint | None,
    now: int,
    kid: str,
    *,
    buffered: bool,
) -> list[p.Plan]:
    """Binds a waitpoint to a suspension. `buffered`: it has signals already."""
    ident = fields.execution_id
    names = conditions.required_names(args.resume_condition, bound.waitpoint_key)
    values = {
        "partition_key": ident.partition_index,
        "waitpoint_id": binding.waitpoint_id,
        "suspension_id": args.suspension_id,
        "required_signal_names": json.dumps(names, ensure_ascii=False),
        "expires_at_ms": args.timeout_at,
        "now": now,
    }
    if isinstance(binding, model.UsePending):
        assert stored is not None
        activate = ACTIVATE_WAITPOINT(**values, version=stored.version)
        if not buffered:
            return [activate]
        return [activate, TAG_SIGNALS(**values, version=stored.version + 1)]
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
    return [REBIND_WAITPOINT(**fresh, version=stored.version)]


def create_waitpoint(
    fields: HandleFields,
    waitpoint_id: UUID,
    key: str,
    token: str,
    kid: str,
    now: int,
    expires_at: int,
    names: Sequence[str] = (),
    payload_schema: p.Values | None = None,
    approvers: Sequence[str] = (),
) -> p.Plan:
    """`names` are the only signals that it takes while it is pending; none means any."""
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


def encode_schema(schema: p.Values | None) -> str | None:
    return None if schema is None else json.dumps(schema, separators=(",", ":"))


def consume(fields: HandleFields, stored: model.Waitpoint, now: int) -> list[p.Plan]:
    """Closes a pending waitpoint whose signals satisfy the condition, if the lease still holds."""
    return [HOLD(**held_by(fields)), CONSUME_WAITPOINT(**_named(stored), now=now)]


def close(stored: model.Waitpoint | None, execution: UUID, reason: str) -> Decision:
    """Closes a waitpoint; the suspension that it may belong to stays open."""
    if stored is None or stored.execution_id != execution:
        return Reject(Contention(ContentionKind.WAITPOINT_NOT_FOUND))
    if stored.state in ("closed", "expired"):
        return Return("already_closed")
    if not stored.is_open:
        return Reject(StateError(StateKind.WAITPOINT_NOT_OPEN, stored.state))
    if stored.state != "active":
        return Commit(closing(stored, reason), "closed")
    bump = BUMP_VERSION(
        partition_key=stored.partition_key,
        execution_id=stored.execution_id,
        suspension_id=stored.suspension_id,
    )
    return Commit(closing(stored, reason), "closed", (bump,))


def _named(stored: model.Waitpoint) -> dict[str, object]:
    return {
        "partition_key": stored.partition_key,
        "waitpoint_id": stored.waitpoint_id,
        "version": stored.version,
    }


def closing(stored: model.Waitpoint, reason: str) -> p.Plan:
    return CLOSE_WAITPOINT(**_named(stored), reason=reason)


def signal_limit(policy_text: str | None, ident: ExecutionId, args: model.DeliverSignalArgs) -> int:
    """How many signals an execution takes: the smaller limit of policy and call; 0 is no limit."""
    policy = stored_policy(policy_text, ident)
    limit = model.MAX_SIGNALS if policy is None else policy.max_signals_per_execution
    # The policy's default means that only the call limits.
    limits = (args.max_signals_per_execution, 0 if limit == model.MAX_SIGNALS else limit)
    return min((each for each in limits if each), default=0)
