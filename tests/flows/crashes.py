"""Cascades of processes that are killed: before the cascade starts, or halfway. `Firings` checks
that no group fires twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flowfabric.engine.engine import Engine
from flowfabric.engine.flows.cascade import Cascade
from flowfabric.engine.flows.edge_resolver import GroupChange
from flowfabric.engine.flows.snapshots import GroupKey
from flowfabric.ids import ExecutionId
from flowfabric.model.flow import Cascaded, EdgeGroup
from flowfabric.plan import Applied


class Firings:
    """Checks that each group fires at most once between resets."""

    def __init__(self) -> None:
        self.fired: set[GroupKey] = set()

    def watch(self, engine: Engine, kind: type[Cascade] = Cascade) -> Engine:
        """Replaces the cascade of this engine by one of that kind."""
        cascade = engine.parts.core.cascade = kind(
            engine.store, engine.parts.core.wake_parent, engine.parts.core.telemetry
        )
        honest = cascade.resolver.commit

        async def commit(changes: list[GroupChange]) -> Any:
            done = await honest(changes)
            for change, answer in done:
                if isinstance(answer, Applied):
                    self._note(change.key, change.plans)
            return done

        cascade.resolver.commit = commit  # type: ignore[method-assign]
        return engine

    def _note(self, key: GroupKey, plans: list[Any]) -> None:
        said = dict(zip(plans[0].form.args, plans[0].values, strict=True))
        moves = len(plans) > 1 and plans[1].form.name != "give_input"
        if key in self.fired:
            assert plans[0].form.name == "resolve_edges" and not moves, (
                f"group of {key[2]} fired twice"
            )
        elif said["group_state"] != "pending":
            self.fired.add(key)
        else:
            assert plans[0].form.name == "resolve_edges" and not moves, (
                f"group of {key[2]} did not fire, yet it acted"
            )

    def forget(self, wanted: Callable[[GroupKey], bool]) -> None:
        self.fired = {key for key in self.fired if not wanted(key)}


class Dead(Cascade):
    """The cascade of a process that was killed right after its commit."""

    async def _run(self, idents: Sequence[ExecutionId]) -> Cascaded:
        return Cascaded()


class Killed(BaseException):
    """The end of a process. No handler for `Exception` sees it, so nothing runs after it."""


class Halfway(Cascade):
    """The cascade of processes that are killed once a group has fired, before the losers are
    cancelled. Each cascade is a process of its own.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)

        async def killed(group: EdgeGroup) -> list[ExecutionId]:
            raise Killed

        self.members.cancel_siblings = killed  # type: ignore[method-assign]

    async def _run(self, idents: Sequence[ExecutionId]) -> Cascaded:
        try:
            return await super()._run(idents)
        except Killed:
            return Cascaded()
