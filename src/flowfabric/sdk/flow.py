"""Flows: graphs of tasks with dependencies and results as arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from msgspec.structs import replace

from flowfabric.errors import ConfigError
from flowfabric.ids import ExecutionId
from flowfabric.ids import name as checked_name
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.flow import EdgePolicy, GraphEdge, OnSatisfied, SubmitFlowArgs
from flowfabric.sdk.flow_handle import NODE_TAG, Flow
from flowfabric.sdk.inputs import FIRST, SUCCEEDED, Stored
from flowfabric.sdk.options import Options
from flowfabric.sdk.run import Run

if TYPE_CHECKING:
    from flowfabric.sdk.app import App
    from flowfabric.sdk.task import AnyTask


class Node(Run[Any]):
    """A run of a flow. As an argument of another node it stands for its result.

    A list of nodes stands for the list of their results.
    """

    flow: FlowBuilder


class Group:
    """Nodes, and how many of them must succeed; made by all_of, any_of, race and quorum."""

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
        raise ConfigError(f"{word}: nodes of a flow, as in {word}(*nodes); got {node!r:.80}")


def _rest(cancel_rest: bool) -> OnSatisfied:
    return OnSatisfied.CANCEL_REMAINING if cancel_rest else OnSatisfied.LET_RUN


def any_of(*nodes: Node, cancel_rest: bool = True) -> Group:
    """Satisfied when the first of the nodes succeeds.

    With `cancel_rest` (the default) the others are cancelled then. As an argument the group is the
    list of results of the nodes that have succeeded by then, in the order of the nodes.
    """
    return Group(nodes, EdgePolicy.any_of(_rest(cancel_rest)))


def race(*nodes: Node, cancel_rest: bool = True) -> Group:
    """Like `any_of`; as an argument it is the result of the node that succeeded first."""
    return Group(nodes, EdgePolicy.any_of(_rest(cancel_rest)), is_race=True)


def quorum(k: int, *nodes: Node, cancel_rest: bool = True) -> Group:
    """Satisfied when `k` of the nodes have succeeded.

    With `cancel_rest` (the default) the others are cancelled then. As an argument the group is the
    list of results of the nodes that have succeeded by then, in the order of the nodes.
    """
    return Group(nodes, EdgePolicy.quorum(k, _rest(cancel_rest)))


def all_of(*nodes: Node) -> Group:
    """Satisfied when all nodes have succeeded. As an argument: the list of their results."""
    return Group(nodes, EdgePolicy.all_of())


class FlowBuilder(Flow):
    """Collects nodes; leaving the block submits them together. Then it is a handle to the flow.

    `id` is the flow's id.
    """

    def __init__(self, app: App, name: str) -> None:
        super().__init__(app, uuid4())
        self.name = name
        self._nodes: list[tuple[Options, CreateExecutionArgs]] = []
        self._edges: dict[tuple[ExecutionId, ExecutionId], GraphEdge] = {}
        self._policies: dict[ExecutionId, EdgePolicy] = {}
        self._known: set[ExecutionId] = set()
        self._names: set[str] = set()
        self._submitted = False

    async def __aenter__(self) -> FlowBuilder:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.submit()

    def add(
        self,
        task: AnyTask,
        *args: object,
        after: Node | Group | Iterable[Node] = (),
        node: str | None = None,
        **kwargs: object,
    ) -> Node:
        """Adds a run of `task` with these arguments.

        It starts when everything it depends on has succeeded: `after`, which is a node, nodes or a
        group, and the nodes and groups among its arguments. Accepts the options of `task.submit`
        except `key`, `key_ttl` and `connection`.

        `node` names it in `flow.results()`; default the name of the task, numbered from the second
        one on: `resize`, `resize 2`.
        """
        if self._submitted:
            raise ConfigError(f"flow {self.name}: it has been submitted; start another flow")
        options = self._named(task, Options.taken_from(kwargs), node)
        options.check_member(f"flow {self.name}", "node")
        ident = ExecutionId.for_flow(self.id)
        values = {**{f"argument {at}": value for at, value in enumerate(args, 1)}, **kwargs}
        group = self._group(after, values)
        self._join(ident, group, values)
        payload = task.payload(args, kwargs, partial(_stands_for, group))
        self._nodes.append((options, task.creation(ident, payload, options)))
        self._known.add(ident)
        made = Node(self.app, ident, task)
        made.flow = self
        return made

    def _named(self, task: AnyTask, options: Options, name: str | None) -> Options:
        """The options with the name of the node as a tag, unless it is that of the task."""
        if name is None:
            numbers = range(2, len(self._nodes) + 2)
            free = (f"{task.name} {n}" for n in numbers if f"{task.name} {n}" not in self._names)
            name = next(free) if task.name in self._names else task.name
        elif checked_name(name, "node") in self._names:
            raise ConfigError(f"flow {self.name}: node: {name!r:.80} is the name of another node")
        self._names.add(name)
        if name == task.name:
            return options
        return replace(options, tags={**options.tags, NODE_TAG: name})

    def _group(self, after: Node | Group | Iterable[Node], values: Mapping[str, object]) -> Group:
        """The group a node depends on. At most one may need fewer than all of its nodes."""
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
                f"flow {self.name}: a node depends on one any_of, race or quorum, or on all of its "
                "nodes; put another node in between for the other"
            )
        return found[0]

    def _join(self, ident: ExecutionId, group: Group, values: Mapping[str, object]) -> None:
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

    def _check_choice(
        self, waited: Mapping[ExecutionId, Node], values: Mapping[str, object]
    ) -> None:
        """Where not all nodes must succeed, the result of a certain one may not exist."""
        for name, value in values.items():
            if isinstance(value, Node):
                raise ConfigError(
                    f"flow {self.name}: {name}: {value!r:.80} need not succeed for this node to "
                    "run, so its result cannot be an argument; pass race(...), any_of(...) or "
                    "quorum(...) itself, or a list of its nodes"
                )
            if {node.id for node in _nodes_in(value)} - waited.keys():
                raise ConfigError(
                    f"flow {self.name}: {name}: all of these nodes must be among those in after=..."
                )

    async def submit(self) -> Flow:
        """Submits all nodes in one commit; returns the flow. Leaving the block calls it."""
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
        return Flow(self.app, self.id)


def _nodes_in(value: object) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    if isinstance(value, Group):
        return value.nodes
    if isinstance(value, list | tuple):
        return [item for item in value if isinstance(item, Node)]
    return []


def _stands_for(group: Group, value: object) -> Stored | None:
    """The stored form of an argument that is a result; None for a plain value."""
    nodes = _nodes_in(value)
    if isinstance(value, Node):
        return str(value.id)
    if isinstance(value, list | tuple) and nodes and len(nodes) != len(value):
        raise ConfigError("arguments: a list holds either nodes or values, not both")
    if not nodes:
        return None
    texts = [str(node.id) for node in nodes]
    if isinstance(value, Group) and value.is_race:
        return {FIRST: texts}
    return texts if group.needs_all else {SUCCEEDED: texts}
