"""A token that belongs to one namespace sees nothing of the others: what is not its own is not there."""

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
    from flowfabric.server.route import Ask, Route


class Forbidden(NotFound):
    """Told as if it did not exist."""


class Namespaces:
    """Where executions and flows belong. It is read each time: an id that was removed may be another namespace's by now."""

    def __init__(self, engine: LocalEngineProtocol) -> None:
        self._engine = engine

    async def of_execution(self, ident: ExecutionId) -> str | None:
        return next(iter(await self.of_executions([ident])), None)

    async def of_executions(self, idents: list[ExecutionId]) -> set[str]:
        return (
            set((await self._engine.get_execution_namespaces(idents)).values()) if idents else set()
        )

    async def are_of(self, idents: Sequence[ExecutionId], namespace: str) -> bool:
        """Whether all of them exist, and there."""
        found = await self._engine.get_execution_namespaces(idents) if idents else {}
        return all(found.get(ident) == namespace for ident in idents)

    async def of_flow(self, ident: UUID) -> str | None:
        return await self._engine.get_flow_namespace(ident)


async def check(route: Route, ask: Ask) -> None:
    """Before the handler runs, for callers who are bound."""
    if route.subject:
        subject = getattr(ask.body, route.subject, None)
    elif route.bound is Bound.EXECUTION:
        subject = ask.execution()
    elif route.bound is Bound.FLOW:
        subject = ask.uuid()
    elif route.bound is Bound.BUDGET:
        subject = ask.uuid(shown="budget_id")
    else:
        subject = ask.body if ask.body is not None else ask.query
    await _check(route, subject, ask)


async def _check(route: Route, subject: Any, ask: Ask) -> None:
    mine, lanes = ask.caller.namespace, ask.caller.lanes
    match route.bound:
        case Bound.FREE:
            return
        case Bound.NAMESPACE:
            named = subject if isinstance(subject, list) else [subject]
            for each in named:
                _check_named(each, mine, lanes)
            if mine is not None:
                await _check_ids(named, mine, ask.server.namespaces)
        case Bound.EXECUTION:
            ident = str(getattr(subject, "execution_id", subject))
            if mine is not None and await _owner(ask.server.namespaces, ident) != mine:
                raise Forbidden("execution")
        case Bound.FLOW:
            ident = getattr(subject, "flow_id", subject)
            if mine is not None and await ask.server.namespaces.of_flow(ident) != mine:
                raise Forbidden("flow")
            await _check_members(subject if route.subject else ask.body, ask)
        case Bound.HANDLE:
            await _check_handles(subject, ask)
        case Bound.LANE:
            _check_lanes(getattr(subject, "lane_id", subject), lanes)
            _check_claimed(ask.body, mine)
        case Bound.TURN:
            _check_lanes(subject.lane, lanes)
            _check_claimed(subject, mine)
            await _check_handles(subject.many, ask)
        case bound if bound in limit_tenancy.LIMITS:
            refused = await limit_tenancy.refusal(bound, subject, ask)
            if refused is not None:
                raise Forbidden(refused.entity)
        case Bound.NEVER:
            raise Forbidden("path")


async def _check_ids(made: list[Any], mine: str, namespaces: Namespaces) -> None:
    """An id that is taken elsewhere cannot be used here. That is all that is told: neither what has it nor how that stands."""
    idents = [
        node.execution_id
        for each in made
        for node in _nodes(each)
        if getattr(node, "execution_id", None) is not None
    ]
    if await namespaces.of_executions(idents) - {mine}:
        raise Forbidden("execution")
    for each in made:
        flow = None if hasattr(each, "execution_id") else getattr(each, "flow_id", None)
        if flow is not None and await namespaces.of_flow(flow) not in (None, mine):
            raise Forbidden("flow")


def _nodes(each: Any) -> tuple[Any, ...]:
    return (each, *getattr(each, "nodes", ()))


async def _check_members(body: Any, ask: Ask) -> None:
    """Who could make what is another's a member of his own flow could cancel it with the flow."""
    if ask.caller.namespace is None:
        return
    named = [
        getattr(body, name, None)
        for name in ("execution_id", "upstream_execution_id", "downstream_execution_id")
    ]
    if "downstream" in ask.path:
        named.append(ask.execution("downstream"))
    for member in named:
        if (
            member is not None
            and await ask.server.namespaces.of_execution(member) != ask.caller.namespace
        ):
            raise Forbidden("execution")


async def _owner(namespaces: Namespaces, ident: str) -> str | None:
    """Of an execution, or of a flow where either will do."""
    try:
        return await (
            namespaces.of_execution(ExecutionId(ident))
            if ident[:1] == "{"
            else namespaces.of_flow(parse_uuid(ident))
        )
    except ValueError:
        return None


async def _check_handles(subject: Any, ask: Ask) -> None:
    mine = ask.caller.namespace
    idents = [ask.engine.fields(handle).execution_id for handle in _handles(subject)]
    if mine is not None and not await ask.server.namespaces.are_of(idents, mine):
        raise Forbidden("execution")


def _check_claimed(asked: Any, mine: str | None) -> None:
    """What asks for work names a namespace, itself or in its policy. None stands for all of them."""
    if mine is not None and getattr(asked, "policy", asked).namespace != mine:
        raise Forbidden("namespace")


def _check_lanes(asked: Any, lanes: frozenset[str] | None) -> None:
    if lanes is not None and not set([asked] if isinstance(asked, str) else asked) <= lanes:
        raise Forbidden("lane")


def _handles(subject: Any) -> Iterable[Any]:
    if isinstance(subject, list):
        return [each if isinstance(each, Handle) else each[0] for each in subject]
    return [subject]


def _check_named(subject: Any, mine: str | None, lanes: frozenset[str] | None) -> None:
    named = subject if isinstance(subject, str) else getattr(subject, "namespace", None)
    if mine is not None and named != mine:
        raise Forbidden("namespace")
    for each in _nodes(subject):
        lane, space = getattr(each, "lane_id", None), getattr(each, "namespace", None)
        if (lanes is not None and lane is not None and lane not in lanes) or (
            mine is not None and space is not None and space != mine
        ):
            raise Forbidden("lane")


def narrowed(wanted: ScannerFilter | None, mine: str | None) -> ScannerFilter | None:
    """A filter for events that lets nothing through which is not the caller's."""
    if mine is None:
        return wanted
    return ScannerFilter(mine, None if wanted is None else wanted.instance_tag)
