"""Budgets and quotas of another namespace are not there, like anything else of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from flowfabric.errors import NotFound
from flowfabric.model.quota import LIMIT_KINDS
from flowfabric.server.auth import ANYBODY, Caller
from flowfabric.wire.operations import Bound, Operation

if TYPE_CHECKING:
    from flowfabric.server.route import Ask

LIMITS = frozenset({Bound.OWN, Bound.BUDGET, Bound.QUOTA, Bound.LIMIT})
UPDATES = frozenset({"update_budget", "update_quota_policy"})


async def refusal(bound: Bound, subject: Any, ask: Ask) -> NotFound | None:
    """Why a caller may not ask this. `subject` names a namespace or a limit, or is its id."""
    mine = ask.caller.namespace
    if mine is None:
        return None
    match bound:
        case Bound.OWN:
            named = subject if subject is None or isinstance(subject, str) else subject.namespace
            return None if named in (None, mine) else NotFound("namespace")
        case Bound.BUDGET:
            kind, ident = "budget", getattr(subject, "budget_id", subject)
        case Bound.QUOTA:
            kind, ident = "quota", getattr(subject, "quota_policy_id", subject)
        case _:
            kind, ident = subject.kind, subject.limit_id
    is_mine = kind in LIMIT_KINDS and await ask.engine.read_limit_namespace(kind, ident) == mine
    return None if is_mine else NotFound("limit")


def filled(operation: Operation, body: Any, caller: Caller) -> Any:
    """What the caller left out and its token says: the namespace of what it makes, and who changes a limit."""
    mine = caller.namespace
    if operation.bound is Bound.OWN and mine is not None:
        if operation.subject == "namespace":
            return structs.replace(body, namespace=mine)
        return structs.replace(body, args=structs.replace(body.args, namespace=mine))
    if operation.name in UPDATES and caller is not ANYBODY:
        return structs.replace(body, args=structs.replace(body.args, by=caller.name))
    return body
