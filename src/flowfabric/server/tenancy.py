"""Tenancy: a token bound to a namespace gets "not found" for everything outside it.

Nothing is cached: a removed id may since have been created in another namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, structs

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId, parse_uuid
from flowfabric.model.event import ScannerFilter
from flowfabric.model.lease import Handle
from flowfabric.model.quota import LIMIT_KINDS
from flowfabric.model.search import ExecutionFilter
from flowfabric.server.auth import ANONYMOUS, Caller
from flowfabric.wire.operations import Bound, Operation

if TYPE_CHECKING:
    from flowfabric.server.route import ApiRequest, Route

COUNTS = "count_executions"
AUTHORS = {
    "update_budget": "by",
    "update_quota_policy": "by",
    "create_token": "by",
    "rotate_token": "by",
    "revoke_token": "by",
    "deliver_approval_signal": "source_identity",
}
"""Operations whose arguments name their author: the field."""
REQUESTS = frozenset(
    {
        "start_bulk",
        "erase_namespace",
        "move_execution",
        "release_execution",
        "delete_execution",
        "restart_from_step",
    }
)
"""Operations whose `requested_by` is the name of the token."""
_LIMITS = {
    Bound.BUDGET: ("budget", "budget_id"),
    Bound.QUOTA: ("quota", "quota_policy_id"),
    Bound.LIMIT: ("", "limit_id"),
}
"""The kind of limit that a bound names, and the field of its id."""
S = TypeVar("S", bound=Struct)


class Forbidden(NotFound):
    """Reported as not found, so that a caller cannot probe other namespaces."""


async def check(route: Route, request: ApiRequest) -> None:
    """Check a request of a bound caller before its handler runs."""
    subject = _subject(route, request)
    own, lanes = request.caller.namespace, request.caller.lanes
    match route.bound:
        case Bound.FREE:
            return
        case Bound.NAMESPACE:
            named = subject if isinstance(subject, list) else [subject]
            for each in named:
                _check_named(each, own, lanes)
            if own is not None:
                await _check_ids(named, own, request.server.engine)
        case Bound.EXECUTION:
            ident = str(_field(subject, "execution_id"))
            if own is not None and await _owner(request.engine, ident) != own:
                raise Forbidden("execution")
            _check_target(request.body, lanes)
        case Bound.FLOW:
            flow = _field(subject, "flow_id")
            if own is not None and await request.engine.get_flow_namespace(flow) != own:
                raise Forbidden("flow")
            await _check_members(subject if route.subject else request.body, request)
        case Bound.HANDLE:
            await _check_handles(_field(subject, "handle"), request)
        case Bound.LANE:
            _check_lanes(_field(subject, "lane_id"), lanes)
            _check_claimed(request.body, own)
        case Bound.TURN:
            _check_lanes(_field(subject, "lane"), lanes)
            _check_claimed(subject, own)
            await _check_handles(_field(subject, "many"), request)
        case Bound.OWN:
            if None not in (own, _namespace_of(subject)) and _namespace_of(subject) != own:
                raise Forbidden("namespace")
            _check_searched(request.body if route.subject == "namespace" else subject, lanes)
            _check_target(request.body, lanes)
        case Bound.BULK:
            await _check_job(subject, request)
        case Bound.BUDGET | Bound.QUOTA | Bound.LIMIT:
            await _check_limit(route.bound, subject, request)
        case Bound.NEVER:
            raise Forbidden("path")


def _subject(route: Route, request: ApiRequest) -> object:
    """What the bound checks: an argument, the id in the path, or the whole body or query."""
    if route.subject:
        return part_of(request.body, route.subject)
    match route.bound:
        case Bound.EXECUTION:
            return request.execution()
        case Bound.FLOW:
            return request.uuid()
        case Bound.BUDGET:
            return request.uuid(shown="budget_id")
        case Bound.BULK:
            return request.uuid(shown="job_id")
    return request.query if request.body is None else request.body


def part_of(body: object, path: str) -> object:
    """An argument, or a part of one: its path has dots."""
    for name in path.split("."):
        body = getattr(body, name, None)
    return body


def _with_namespace(body: S, path: str, namespace: str) -> S:
    """The same body, with the namespace in the part that the path leads to."""
    if not path:
        return structs.replace(body, namespace=namespace)
    head, _, rest = path.partition(".")
    held = _with_namespace(getattr(body, head), rest, namespace)
    return structs.replace(body, **{head: held})


def _with_requester(body: S, name: str) -> S:
    args = getattr(body, "args", None)
    if args is None:
        return structs.replace(body, requested_by=name)
    return structs.replace(body, args=structs.replace(args, requested_by=name))


def _check_target(body: object, lanes: frozenset[str] | None) -> None:
    """Refuse a move to a lane that the token does not name."""
    lane = getattr(getattr(body, "args", body), "lane", None)
    if lanes is not None and lane is not None and lane not in lanes:
        raise Forbidden("lane")


async def _check_job(job_id: object, request: ApiRequest) -> None:
    own = request.caller.namespace
    if own is None:
        return
    job = await request.engine.read_bulk(job_id)  # type: ignore[arg-type]
    if job is None or job.args.where.namespace != own:
        raise Forbidden("bulk_job")


def _field(subject: object, name: str) -> Any:
    """A field of an argument; a subject without this field is the value itself."""
    return getattr(subject, name, subject)


def _namespace_of(subject: object) -> str | None:
    return subject if isinstance(subject, str) else getattr(subject, "namespace", None)


async def _namespaces(
    engine: LocalEngineProtocol, idents: Sequence[ExecutionId]
) -> dict[ExecutionId, str]:
    return dict(await engine.get_execution_namespaces(idents)) if idents else {}


async def _check_limit(bound: Bound, subject: object, request: ApiRequest) -> None:
    """`subject` names a limit or is the id of one."""
    own = request.caller.namespace
    if own is None:
        return
    kind, field = _LIMITS[bound]
    kind = kind or getattr(subject, "kind", "")
    ident = _field(subject, field)
    if kind not in LIMIT_KINDS or await request.engine.read_limit_namespace(kind, ident) != own:
        raise Forbidden("limit")


async def _check_ids(made: Sequence[object], own: str, engine: LocalEngineProtocol) -> None:
    """Refuse ids that exist in another namespace, without naming the namespace or the state.

    `engine` is that of all namespaces.
    """
    named = (getattr(node, "execution_id", None) for each in made for node in _nodes(each))
    found = await _namespaces(engine, [ident for ident in named if ident is not None])
    if set(found.values()) - {own}:
        raise Forbidden("execution")
    for each in made:
        flow = None if hasattr(each, "execution_id") else getattr(each, "flow_id", None)
        if flow is not None and await engine.get_flow_namespace(flow) not in (None, own):
            raise Forbidden("flow")


def _nodes(each: object) -> tuple[object, ...]:
    return (each, *getattr(each, "nodes", ()))


async def _check_members(body: object, request: ApiRequest) -> None:
    """Refuse members of another namespace: a caller could cancel them with its own flow."""
    names = ("execution_id", "upstream_execution_id", "downstream_execution_id")
    named = [getattr(body, name, None) for name in names]
    if "downstream" in request.path:
        named.append(request.execution("downstream"))
    await _check_all_own([member for member in named if member is not None], request)


async def _check_all_own(idents: Sequence[ExecutionId], request: ApiRequest) -> None:
    own = request.caller.namespace
    if own is not None:
        found = await _namespaces(request.engine, idents)
        if any(found.get(ident) != own for ident in idents):
            raise Forbidden("execution")


async def _owner(engine: LocalEngineProtocol, ident: str) -> str | None:
    """The namespace of an execution, or of a flow where both are accepted."""
    try:
        if ident[:1] != "{":
            return await engine.get_flow_namespace(parse_uuid(ident))
        return next(iter((await _namespaces(engine, [ExecutionId(ident)])).values()), None)
    except ValueError:
        return None


async def _check_handles(
    subject: Handle | list[Handle] | list[tuple[Handle, object]], request: ApiRequest
) -> None:
    listed = subject if isinstance(subject, list) else [subject]
    handles = [each if isinstance(each, Handle) else each[0] for each in listed]
    await _check_all_own([request.engine.fields(each).execution_id for each in handles], request)


def _check_claimed(claim: object, own: str | None) -> None:
    """A claim names its namespace, in itself or in its policy; None means all namespaces."""
    if own is not None and _namespace_of(_field(claim, "policy")) != own:
        raise Forbidden("namespace")


def _check_lanes(claim: str | Iterable[str], lanes: frozenset[str] | None) -> None:
    if lanes is not None and not set([claim] if isinstance(claim, str) else claim) <= lanes:
        raise Forbidden("lane")


def _check_searched(where: object, lanes: frozenset[str] | None) -> None:
    """A search names one lane, or several, or none."""
    lane = getattr(where, "lane", None)
    _check_lanes([] if lane is None else [lane], lanes)
    _check_lanes(getattr(where, "lanes", None) or (), lanes)


def _check_named(subject: object, own: str | None, lanes: frozenset[str] | None) -> None:
    if own is not None and _namespace_of(subject) != own:
        raise Forbidden("namespace")
    for each in _nodes(subject):
        lane, space = getattr(each, "lane_id", None), getattr(each, "namespace", None)
        if (lanes is not None and lane is not None and lane not in lanes) or (
            own is not None and space is not None and space != own
        ):
            raise Forbidden("lane")


def narrow_filter(wanted: ScannerFilter | None, own: str | None) -> ScannerFilter | None:
    """Restrict an event filter to the caller's namespace."""
    if own is None:
        return wanted
    return ScannerFilter(own, None if wanted is None else wanted.instance_tag)


def narrow_search(where: ExecutionFilter, caller: Caller) -> ExecutionFilter:
    """Restrict a search to the namespace and the lanes of the caller's token."""
    if caller.namespace is not None:
        where = structs.replace(where, namespace=caller.namespace)
    if where.lane is None and not where.lanes:
        where = structs.replace(where, lanes=tuple(lanes_of(caller) or ()))
    return where


def lanes_of(caller: Caller) -> list[str] | None:
    """The lanes that a caller may search; None for all. A token may be bound to no lane at all."""
    if caller.lanes is not None and not caller.lanes:
        raise Forbidden("lane")
    return None if caller.lanes is None else sorted(caller.lanes)


def with_defaults(operation: Operation, body: S, caller: Caller) -> S:
    """Fill in what the token determines: the namespace of a limit or a search, the author of a
    change.
    """
    args, namespace = getattr(body, "args", body), caller.namespace
    if isinstance(where := getattr(body, "where", None), ExecutionFilter):
        return structs.replace(body, where=narrow_search(where, caller))
    if isinstance(where := getattr(args, "where", None), ExecutionFilter):
        args = structs.replace(args, where=narrow_search(where, caller))
        body = structs.replace(body, args=args)
    if operation.name == COUNTS and getattr(body, "lanes", None) is None:
        body = structs.replace(body, lanes=lanes_of(caller))
    if operation.name in REQUESTS and caller is not ANONYMOUS:
        body = _with_requester(body, caller.name)
    if operation.bound is Bound.OWN and namespace is not None:
        path = "" if operation.subject == "namespace" else operation.subject
        return _with_namespace(body, path, namespace)
    if operation.name in AUTHORS and caller is not ANONYMOUS:
        author = {AUTHORS[operation.name]: caller.name}
        return structs.replace(body, args=structs.replace(args, **author))
    return body
