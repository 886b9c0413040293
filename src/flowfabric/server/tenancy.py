"""Tenancy: a token bound to a namespace gets "not found" for everything outside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId, parse_uuid
from flowfabric.model.event import ScannerFilter
from flowfabric.model.lease import Handle
from flowfabric.server import limit_tenancy
from flowfabric.wire.operations import Bound

if TYPE_CHECKING:
    from flowfabric.server.route import ApiRequest, Route


class Forbidden(NotFound):
    """Reported as not found, so that a caller cannot probe other namespaces."""


class Namespaces:
    """Reads the namespace of executions and flows.

    Nothing is cached: a removed id may since have been created in another namespace.
    """

    def __init__(self, engine: LocalEngineProtocol) -> None:
        self._engine = engine

    async def of_execution(self, ident: ExecutionId) -> str | None:
        return next(iter(await self.of_executions([ident])), None)

    async def of_executions(self, idents: list[ExecutionId]) -> set[str]:
        return (
            set((await self._engine.get_execution_namespaces(idents)).values()) if idents else set()
        )

    async def are_of(self, idents: Sequence[ExecutionId], namespace: str) -> bool:
        """Whether all of them exist in this namespace."""
        found = await self._engine.get_execution_namespaces(idents) if idents else {}
        return all(found.get(ident) == namespace for ident in idents)

    async def of_flow(self, ident: UUID) -> str | None:
        return await self._engine.get_flow_namespace(ident)


async def check(route: Route, request: ApiRequest) -> None:
    """Check a request of a bound caller before its handler runs."""
    if route.subject:
        subject = getattr(request.body, route.subject, None)
    elif route.bound is Bound.EXECUTION:
        subject = request.execution()
    elif route.bound is Bound.FLOW:
        subject = request.uuid()
    elif route.bound is Bound.BUDGET:
        subject = request.uuid(shown="budget_id")
    else:
        subject = request.body if request.body is not None else request.query
    await _check(route, subject, request)


async def _check(route: Route, subject: Any, request: ApiRequest) -> None:
    own, lanes = request.caller.namespace, request.caller.lanes
    match route.bound:
        case Bound.FREE:
            return
        case Bound.NAMESPACE:
            named = subject if isinstance(subject, list) else [subject]
            for each in named:
                _check_named(each, own, lanes)
            if own is not None:
                await _check_ids(named, own, request.server.namespaces)
        case Bound.EXECUTION:
            ident = str(getattr(subject, "execution_id", subject))
            if own is not None and await _owner(request.server.namespaces, ident) != own:
                raise Forbidden("execution")
        case Bound.FLOW:
            ident = getattr(subject, "flow_id", subject)
            if own is not None and await request.server.namespaces.of_flow(ident) != own:
                raise Forbidden("flow")
            await _check_members(subject if route.subject else request.body, request)
        case Bound.HANDLE:
            await _check_handles(subject, request)
        case Bound.LANE:
            _check_lanes(getattr(subject, "lane_id", subject), lanes)
            _check_claimed(request.body, own)
        case Bound.TURN:
            _check_lanes(subject.lane, lanes)
            _check_claimed(subject, own)
            await _check_handles(subject.many, request)
        case bound if bound in limit_tenancy.LIMITS:
            refused = await limit_tenancy.limit_refusal(bound, subject, request)
            if refused is not None:
                raise Forbidden(refused.entity)
        case Bound.NEVER:
            raise Forbidden("path")


async def _check_ids(made: list[Any], own: str, namespaces: Namespaces) -> None:
    """Refuse ids that exist in another namespace, without naming the namespace or the state."""
    idents = [
        node.execution_id
        for each in made
        for node in _nodes(each)
        if getattr(node, "execution_id", None) is not None
    ]
    if await namespaces.of_executions(idents) - {own}:
        raise Forbidden("execution")
    for each in made:
        flow = None if hasattr(each, "execution_id") else getattr(each, "flow_id", None)
        if flow is not None and await namespaces.of_flow(flow) not in (None, own):
            raise Forbidden("flow")


def _nodes(each: Any) -> tuple[Any, ...]:
    return (each, *getattr(each, "nodes", ()))


async def _check_members(body: Any, request: ApiRequest) -> None:
    """Refuse members of another namespace: a caller could cancel them with its own flow."""
    if request.caller.namespace is None:
        return
    named = [
        getattr(body, name, None)
        for name in ("execution_id", "upstream_execution_id", "downstream_execution_id")
    ]
    if "downstream" in request.path:
        named.append(request.execution("downstream"))
    for member in named:
        if (
            member is not None
            and await request.server.namespaces.of_execution(member) != request.caller.namespace
        ):
            raise Forbidden("execution")


async def _owner(namespaces: Namespaces, ident: str) -> str | None:
    """The namespace of an execution, or of a flow where both are accepted."""
    try:
        return await (
            namespaces.of_execution(ExecutionId(ident))
            if ident[:1] == "{"
            else namespaces.of_flow(parse_uuid(ident))
        )
    except ValueError:
        return None


async def _check_handles(subject: Any, request: ApiRequest) -> None:
    own = request.caller.namespace
    idents = [request.engine.fields(handle).execution_id for handle in _handles(subject)]
    if own is not None and not await request.server.namespaces.are_of(idents, own):
        raise Forbidden("execution")


def _check_claimed(claim: Any, own: str | None) -> None:
    """A claim names its namespace, in itself or in its policy; None means all namespaces."""
    if own is not None and getattr(claim, "policy", claim).namespace != own:
        raise Forbidden("namespace")


def _check_lanes(claim: Any, lanes: frozenset[str] | None) -> None:
    if lanes is not None and not set([claim] if isinstance(claim, str) else claim) <= lanes:
        raise Forbidden("lane")


def _handles(subject: Any) -> Iterable[Any]:
    if isinstance(subject, list):
        return [each if isinstance(each, Handle) else each[0] for each in subject]
    return [subject]


def _check_named(subject: Any, own: str | None, lanes: frozenset[str] | None) -> None:
    named = subject if isinstance(subject, str) else getattr(subject, "namespace", None)
    if own is not None and named != own:
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
