"""The engine operations available over HTTP, with the role and the tenancy check of each.

One line here adds an operation; its request and response types are read from its signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from flowfabric.engine.protocol import EngineProtocol


class Role(StrEnum):
    READ = "read"
    SUBMIT = "submit"
    WORK = "work"
    OPERATE = "operate"
    ADMIN = "admin"


class Bound(StrEnum):
    """How a namespace-bound token is checked. OWN: a missing namespace is filled in."""

    EXECUTION = "execution"
    FLOW = "flow"
    HANDLE = "handle"
    NAMESPACE = "namespace"
    LANE = "lane"
    TURN = "turn"
    BUDGET = "budget"
    QUOTA = "quota"
    LIMIT = "limit"
    BULK = "bulk"
    OWN = "own"
    FREE = "free"
    NEVER = "never"


class Operation(Struct, frozen=True):
    """`subject`: the argument that `bound` checks; dots lead to a part. `again`: the operation
    is idempotent.
    """

    name: str
    role: Role
    bound: Bound
    subject: str
    again: bool


def _all(
    role: Role, bound: Bound, subject: str, names: str, *, again: bool = True
) -> list[Operation]:
    return [Operation(name, role, bound, subject, again) for name in names.split()]


_LISTED = [
    *_all(Role.READ, Bound.FREE, "", "ping server_time_ms"),
    *_all(
        Role.READ,
        Bound.EXECUTION,
        "execution",
        "describe_execution explain_execution read_execution_info read_execution_state "
        "read_execution_context read_outcome wait_for_outcome get_execution_result "
        "list_attempts read_stream tail_stream read_followed read_summary "
        "list_pending_waitpoints read_budget_ledger resolve_execution_flow_id "
        "read_execution_summary",
    ),
    *_all(Role.READ, Bound.EXECUTION, "subject", "history"),
    *_all(
        Role.READ, Bound.FLOW, "flow_id", "describe_flow flow_members flow_edges read_flow_summary"
    ),
    *_all(Role.READ, Bound.NAMESPACE, "namespace", "list_workers read_schedules"),
    *_all(Role.READ, Bound.FREE, "", "read_events"),
    *_all(
        Role.READ,
        Bound.NEVER,
        "",
        "list_lanes read_lane list_executions list_flows list_suspended "
        "list_open_waitpoints list_approvals list_expired_leases",
    ),
    *_all(Role.READ, Bound.OWN, "namespace", "list_limit_scopes count_executions"),
    *_all(Role.READ, Bound.OWN, "namespace", "resolve_execution list_budgets list_quotas"),
    *_all(Role.READ, Bound.OWN, "where", "find_executions"),
    *_all(Role.READ, Bound.BUDGET, "budget_id", "get_budget_status read_budget_usage_and_limits"),
    *_all(Role.READ, Bound.QUOTA, "quota_policy_id", "read_quota_policy_limits"),
    *_all(Role.SUBMIT, Bound.NAMESPACE, "args", "create_execution submit_flow create_flow"),
    *_all(Role.SUBMIT, Bound.NAMESPACE, "many", "create_executions"),
    *_all(Role.SUBMIT, Bound.EXECUTION, "args", "cancel_execution"),
    *_all(Role.SUBMIT, Bound.EXECUTION, "args", "deliver_signal"),
    *_all(Role.SUBMIT, Bound.OWN, "args", "create_budget create_quota_policy"),
    *_all(Role.SUBMIT, Bound.LIMIT, "", "attach_limit"),
    *_all(Role.WORK, Bound.LANE, "lane", "claim_many", again=False),
    *_all(Role.WORK, Bound.LANE, "lanes", "wait_for_work"),
    *_all(Role.WORK, Bound.HANDLE, "handle", "renew progress complete record_step"),
    *_all(Role.WORK, Bound.HANDLE, "many", "complete_many"),
    *_all(Role.WORK, Bound.HANDLE, "handles", "are_held"),
    *_all(Role.WORK, Bound.TURN, "", "complete_and_claim", again=False),
    *_all(
        Role.WORK,
        Bound.HANDLE,
        "handle",
        "delay cancel wait_children create_waitpoint",
        again=False,
    ),
    *_all(
        Role.WORK, Bound.HANDLE, "handle", "fail suspend append_frame append_frames report_usage"
    ),
    *_all(Role.WORK, Bound.HANDLE, "handle", "observe_signals"),
    *_all(
        Role.WORK,
        Bound.EXECUTION,
        "execution",
        "read_steps read_last_suspension read_resume_signals",
    ),
    *_all(Role.WORK, Bound.NAMESPACE, "args", "register_worker"),
    *_all(
        Role.WORK, Bound.NAMESPACE, "namespace", "heartbeat_worker mark_worker_dead begin_schedule"
    ),
    *_all(Role.WORK, Bound.NAMESPACE, "mark", "move_schedule", again=False),
    *_all(Role.WORK, Bound.HANDLE, "handle", "read_held_waitpoint_token"),
    *_all(Role.OPERATE, Bound.NEVER, "", "read_waitpoint_token"),
    *_all(Role.OPERATE, Bound.NAMESPACE, "namespace", "pause_schedule resume_schedule"),
    *_all(Role.OPERATE, Bound.EXECUTION, "args", "replay_execution", again=False),
    *_all(Role.OPERATE, Bound.EXECUTION, "execution", "move_execution release_execution"),
    *_all(
        Role.OPERATE,
        Bound.EXECUTION,
        "execution",
        "delete_execution restart_from_step",
        again=False,
    ),
    *_all(Role.OPERATE, Bound.OWN, "args.where", "start_bulk", again=False),
    *_all(Role.OPERATE, Bound.OWN, "namespace", "list_bulk"),
    *_all(Role.ADMIN, Bound.OWN, "namespace", "erase_namespace", again=False),
    *_all(Role.OPERATE, Bound.BULK, "job_id", "read_bulk stop_bulk"),
    *_all(Role.OPERATE, Bound.EXECUTION, "args", "change_priority revoke_lease"),
    *_all(Role.OPERATE, Bound.EXECUTION, "args", "deliver_approval_signal"),
    *_all(
        Role.OPERATE,
        Bound.EXECUTION,
        "execution",
        "set_execution_tag set_execution_tags close_waitpoint",
    ),
    *_all(Role.SUBMIT, Bound.FLOW, "flow_id", "cancel_flow"),
    *_all(
        Role.SUBMIT,
        Bound.FLOW,
        "args",
        "add_execution_to_flow stage_dependency_edge apply_dependency_to_child",
        again=False,
    ),
    *_all(Role.OPERATE, Bound.NEVER, "", "pause_lane resume_lane drain_lane"),
    *_all(Role.OPERATE, Bound.BUDGET, "args", "update_budget"),
    *_all(Role.OPERATE, Bound.QUOTA, "args", "update_quota_policy"),
    *_all(Role.OPERATE, Bound.BUDGET, "budget_id", "reset_budget"),
    *_all(Role.OPERATE, Bound.QUOTA, "quota_policy_id", "close_quota open_quota"),
    *_all(Role.OPERATE, Bound.LIMIT, "", "detach_limit"),
    *_all(Role.ADMIN, Bound.NEVER, "", "rotate_waitpoint_hmac_secret_all list_waitpoint_hmac_kids"),
]
OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _LISTED}
LEFT_OUT = frozenset({"self", "connection"})


@cache
def signature(name: str) -> inspect.Signature:
    return inspect.signature(getattr(EngineProtocol, name))


@cache
def request_type(name: str) -> type[Struct]:
    """The struct of an operation's arguments."""
    method = getattr(EngineProtocol, name)
    hints = get_type_hints(method)
    fields: list[Any] = []
    for parameter in signature(name).parameters.values():
        if parameter.name in LEFT_OUT:
            continue
        hint = _listed(hints[parameter.name])
        required = parameter.default is inspect.Parameter.empty
        fields.append(
            (parameter.name, hint) if required else (parameter.name, hint, parameter.default)
        )
    return msgspec.defstruct(
        "".join(part.capitalize() for part in name.split("_")), fields, kw_only=True, frozen=True
    )


def _listed(hint: object) -> object:
    return list[get_args(hint)] if get_origin(hint) in (Sequence, Iterable) else hint  # type: ignore[misc]


@cache
def answer_type(name: str) -> object:
    return get_type_hints(getattr(EngineProtocol, name))["return"]
