"""Tenancy of budgets and quotas: those of another namespace are reported as not found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from flowfabric.errors import NotFound
from flowfabric.model.quota import LIMIT_KINDS
from flowfabric.server.auth import ANONYMOUS, Caller
from flowfabric.wire.operations import Bound, Operation

if TYPE_CHECKING:
    from flowfabric.server.route import ApiRequest

LIMITS = frozenset({Bound.OWN, Bound.BUDGET, Bound.QUOTA, Bound.LIMIT})
UPDATES = frozenset({"update_budget", "update_quota_policy"})


async def limit_refusal(bound: Bound, subject: Any, request: ApiRequest) -> NotFound | None:
    """Why the caller's namespace does not permit this; None if it does.

    `subject` names a namespace or a limit, or is the id of a limit.
    """
    namespace = request.caller.namespace
    if namespace is None:
        return None
    match bound:
        case Bound.OWN:
            named = subject if subject is None or isinstance(subject, str) else subject.namespace
            return None if named in (None, namespace) else NotFound("namespace")
        case Bound.BUDGET:
            kind, ident = "budget", getattr(subject, "budget_id", subject)
        case Bound.QUOTA:
            kind, ident = "quota", getattr(subject, "quota_policy_id", subject)
        case _:
            kind, ident = subject.kind, subject.limit_id
    if kind not in LIMIT_KINDS:
        return NotFound("limit")
    owner = await request.engine.read_limit_namespace(kind, ident)
    return None if owner == namespace else NotFound("limit")


def with_defaults(operation: Operation, body: Any, caller: Caller) -> Any:
    """Fill in what the token determines: the namespace of a limit, the author of a change."""
    namespace = caller.namespace
    if operation.bound is Bound.OWN and namespace is not None:
        if operation.subject == "namespace":
            return structs.replace(body, namespace=namespace)
        return structs.replace(body, args=structs.replace(body.args, namespace=namespace))
    if operation.name in UPDATES and caller is not ANONYMOUS:
        return structs.replace(body, args=structs.replace(body.args, by=caller.name))
    return body
