"""Graphs of tasks: what comes after what, and whose result is whose argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import EdgePolicy, GraphEdge, OnSatisfied, SubmitFlowArgs
from flowfabric.sdk.inputs import FIRST, SUCCEEDED
from flowfabric.sdk.options import Options
from flowfabric.sdk.run import Run
from flowfabric.sdk.serialization import SUBMIT_OPTIONS

if TYPE_CHECKING:
    from flowfabric.sdk.app import App
    from flowfabric.sdk.task import Task


class Node(Run[Any]):
    """A run to be. As an argument of another it stands for its result; a list of nodes, for the list of theirs."""

    flow: FlowBuilder


class Group:
    """Some nodes, and how many of them must succeed. As an argument it stands for the results of those that did."""

    def __init__(self, nodes: Iterable[Node], policy: EdgePolicy, *, is_race: bool = False) -> None:
        self.nodes, self.policy, self.is_race = list(nodes), policy, is_race
        word = "race" if is_race else policy.kind
        for node in self.nodes:
            _check_node(node, word)

    @property
    def needs_all(self) -> bool:
        return self.policy.kind == "all_of"


def _check_node(node: object, word: str) -> None:
    if not isinstance(node, Node):
        raise ConfigError(
            f"{word}: nodes of a flow, each by itself, as in {word}(*nodes); got {node!r:.80}"
        )


def _rest(cancel_rest: bool) -> OnSatisfied:
    return OnSatisfied.CANCEL_REMAINING if cancel_rest else OnSatisfied.LET_RUN


def any_of(*nodes: Node, cancel_rest: bool = True) -> Group:
    """The first that succeeds is enough. As an argument: the results of those that have succeeded by then, in this order."""
    return Group(nodes, EdgePolicy.any_of(_rest(cancel_rest)))


def race(*nodes: Node, cancel_rest: bool = True) -> Group:
    """As `any_of`. As an argument: the result of the one that succeeded first."""
    return Group(nodes, EdgePolicy.any_of(_rest(cancel_rest)), is_race=True)


def quorum(k: int, *nodes: Node, cancel_rest: bool = True) -> Group:
    """So many of them are enough. As an argument: the results of those that have succeeded by then, in this order."""
    return Group(nodes, EdgePolicy.quorum(k, _rest(cancel_rest)))


def all_of(*nodes: Node) -> Group:
    """All must succeed. As an argument: their results, in this order."""
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

    def add(
        self,
        task: Task[..., Any],
        *args: Any,
        after: Node | Group | Iterable[Node] = (),
        **kwargs: Any,
    ) -> Node:
        """A node that runs once what it comes after has succeeded, nodes and groups among its arguments included."""
        if self._submitted:
            raise ConfigError(f"flow {self.name}: it is submitted; make another one")
        options = Options(**{name: kwargs.pop(name) for name in SUBMIT_OPTIONS & kwargs.keys()})
        if options.key is not None or options.key_ttl is not None or options.connection is not None:
            raise ConfigError(
                "key, key_ttl, connection: a node is submitted with its flow and has none"
            )
        ident = ExecutionId.for_flow(self.id)
        values = {**{f"argument {at}": value for at, value in enumerate(args, 1)}, **kwargs}
        group = self._group(after, values)
        self._join(ident, group, values)
        payload = task.payload(args, kwargs, partial(_stands_for, group))
        self._nodes.append((options, task.creation(ident, payload, options)))
        self._known.add(ident)
        node = Node(self.app, ident, task)
        node.flow = self
        return node

    def _group(self, after: Node | Group | Iterable[Node], values: Mapping[str, Any]) -> Group:
        """What it comes after. A node waits in one way, so there is one group that needs fewer than all."""
        given = (
            after
            if isinstance(after, Group)
            else all_of(*([after] if isinstance(after, Node) else after))
        )
        groups = [given, *(value for value in values.values() if isinstance(value, Group))]
        found = [each for each in groups if not each.needs_all]
        if not found:
            return given
        kinds = {(each.policy, frozenset(node.id for node in each.nodes)) for each in found}
        if len(kinds) > 1 or any(each.needs_all and each.nodes for each in groups):
            raise ConfigError(
                f"flow {self.name}: a node waits for one any_of, race or quorum, or for all of its nodes; "
                "put another node in between for the other"
            )
        return found[0]

    def _join(self, ident: ExecutionId, group: Group, values: Mapping[str, Any]) -> None:
        needed = {node.id: node for value in values.values() for node in _nodes_in(value)}
        waited = {node.id: node for node in group.nodes}
        for node in (*needed.values(), *waited.values()):
            if node.id not in self._known:
                raise ConfigError(f"flow {self.name}: {node!r:.80} is not a node of this flow")
        if not group.needs_all:
            self._check_choice(waited, values)
            self._policies[ident] = group.policy
        for upstream in (*waited, *needed):
            self._edges[upstream, ident] = GraphEdge(upstream, ident)

    def _check_choice(self, waited: Mapping[ExecutionId, Node], values: Mapping[str, Any]) -> None:
        """Where not all have to succeed, no single one can be relied on, and nothing else can be waited for."""
        for name, value in values.items():
            if isinstance(value, Node):
                raise ConfigError(
                    f"flow {self.name}: {name}: {value!r:.80} need not succeed for this node to run, so its result cannot be an "
                    "argument; pass race(...), any_of(...) or quorum(...) itself, or a list of its nodes"
                )
            if {node.id for node in _nodes_in(value)} - waited.keys():
                raise ConfigError(
                    f"flow {self.name}: {name}: of these nodes, all must be among those it comes after"
                )

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
    if isinstance(value, Group):
        return value.nodes
    if isinstance(value, list | tuple):
        return [item for item in value if isinstance(item, Node)]
    return []


def _stands_for(group: Group, value: Any) -> str | list[str] | dict[str, list[str]] | None:
    """What is stored for an argument that is somebody's result, where its node comes after this group."""
    nodes = _nodes_in(value)
    if isinstance(value, Node):
        return str(value.id)
    if not isinstance(value, Group) and nodes and len(nodes) != len(value):
        raise ConfigError("arguments: a list holds either nodes or values, not both")
    if not nodes:
        return None
    texts = [str(node.id) for node in nodes]
    if isinstance(value, Group) and value.is_race:
        return {FIRST: texts}
    return texts if group.needs_all else {SUCCEEDED: texts}
