"""Graphs of tasks: what comes after what, and whose result is whose argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import EdgePolicy, GraphEdge, OnSatisfied, SubmitFlowArgs
from flowfabric.sdk.options import Options
from flowfabric.sdk.payloads import SUBMIT_OPTIONS
from flowfabric.sdk.run import Run

if TYPE_CHECKING:
    from flowfabric.sdk.app import App
    from flowfabric.sdk.task import Task


class Node(Run[Any]):
    """A run to be. As an argument of another it stands for its result."""

    flow: FlowBuilder


class Group:
    """Some nodes, and how many of them must succeed."""

    def __init__(self, nodes: Iterable[Node], policy: EdgePolicy) -> None:
        self.nodes, self.policy = list(nodes), policy


def _rest(cancel_rest: bool) -> OnSatisfied:
    return OnSatisfied.CANCEL_REMAINING if cancel_rest else OnSatisfied.LET_RUN


def any_of(*nodes: Node, cancel_rest: bool = True) -> Group:
    """The first that succeeds is enough."""
    return Group(nodes, EdgePolicy.any_of(_rest(cancel_rest)))


def quorum(k: int, *nodes: Node, cancel_rest: bool = True) -> Group:
    """So many of them are enough."""
    return Group(nodes, EdgePolicy.quorum(k, _rest(cancel_rest)))


def all_of(*nodes: Node) -> Group:
    return Group(nodes, EdgePolicy.all_of())


class FlowBuilder:
    """Collects nodes; leaving the block submits them together. `flow.id` is the flow's id."""

    def __init__(self, app: App, name: str) -> None:
        self.app, self.name, self.id = app, name, uuid4()
        self._nodes: list[tuple[Options, CreateExecutionArgs]] = []
        self._edges: dict[tuple[ExecutionId, ExecutionId], GraphEdge] = {}
        self._policies: dict[ExecutionId, EdgePolicy] = {}
        self._known: set[ExecutionId] = set()
        self._submitted = False

    async def __aenter__(self) -> FlowBuilder:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.submit()

    def add(self, task: Task[..., Any], *args: Any, after: Node | Group | Iterable[Node] = (), **kwargs: Any) -> Node:
        """A node that runs once what it comes after has succeeded, nodes among its arguments included."""
        if self._submitted:
            raise ConfigError(f"flow {self.name}: it is submitted; make another one")
        options = Options(**{name: kwargs.pop(name) for name in SUBMIT_OPTIONS & kwargs.keys()})
        if options.key is not None or options.key_ttl is not None or options.connection is not None:
            raise ConfigError("key, key_ttl, connection: a node is submitted with its flow and has none")
        ident = ExecutionId.for_flow(self.id)
        group = after if isinstance(after, Group) else all_of(*([after] if isinstance(after, Node) else after))
        used = [node for value in (*args, *kwargs.values()) for node in _nodes_in(value)]
        self._join(ident, group, used)
        payload = task.payload(args, kwargs, _stands_for)
        self._nodes.append((options, task.creation(ident, payload, options)))
        self._known.add(ident)
        node = Node(self.app, ident, task)
        node.flow = self
        return node

    def _join(self, ident: ExecutionId, group: Group, used: Iterable[Node]) -> None:
        needed = {node.id: node for node in used}
        waited = {node.id: node for node in group.nodes}
        for node in (*needed.values(), *waited.values()):
            if not isinstance(node, Node) or node.id not in self._known:
                raise ConfigError(f"flow {self.name}: {node!r:.80} is not a node of this flow")
        if group.policy.kind != "all_of" and needed.keys() - waited.keys():
            raise ConfigError(f"flow {self.name}: of what it needs as arguments, all must be among the nodes it comes after")
        for upstream in (*waited, *needed):
            self._edges[upstream, ident] = GraphEdge(upstream, ident)
        if group.policy.kind != "all_of":
            self._policies[ident] = group.policy

    async def submit(self) -> UUID:
        """All of it or nothing."""
        self._submitted = True
        engine = await self.app.engine()
        await engine.submit_flow(
            SubmitFlowArgs(
                flow_id=self.id,
                nodes=[await options.dated_by(engine, made) for options, made in self._nodes],
                edges=list(self._edges.values()),
                policies=self._policies,
                flow_kind=self.name,
                namespace=self.app.namespace,
            )
        )
        return self.id


def _nodes_in(value: Any) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    if isinstance(value, list | tuple):
        return [item for item in value if isinstance(item, Node)]
    return []


def _stands_for(value: Any) -> str | list[str] | None:
    """What is stored for an argument that is somebody's result."""
    nodes = _nodes_in(value)
    if isinstance(value, Node):
        return str(value.id)
    if nodes and len(nodes) != len(value):
        raise ConfigError("arguments: a list holds either nodes or values, not both")
    return [str(node.id) for node in nodes] if nodes else None


def results_wanted(later: Mapping[str, Any]) -> dict[str, list[ExecutionId]]:
    """The runs behind each argument that is somebody's result."""
    return {name: [ExecutionId(text) for text in (ids if isinstance(ids, list) else [ids])] for name, ids in later.items()}
