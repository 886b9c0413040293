"""A flow whose ended members are replayed at times. There is no oracle for that; the invariants are
checked in the store.
"""

from __future__ import annotations

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.model.execution import ReplayExecutionArgs
from flowfabric.model.flow import EdgeGroup
from flowfabric.model.flow_links import Member
from flowfabric.model.state import PublicState
from flowfabric.store.port import GetAll
from flowfabric.testing import ManualClock
from flowfabric.verify.flows import drained

from .driver import ENDED, Run
from .graphs import Shape
from .oracle import Oracle

MAX_QUIET = 200


class Blind(Oracle):
    """Predicts nothing and accepts everything."""

    def may_run(self, node: int) -> bool:
        return True

    def end(self, ends: dict[int, str], how: str = "heard") -> None:
        return


class Replays(Run):
    """`free` are members that were replayed without dependencies."""

    def __init__(self, engine: Engine, clock: ManualClock, shape: Shape) -> None:
        super().__init__(engine, clock, shape)
        self.oracle = Blind(range(shape.size), self.graph.edges, {})
        self.free: set[int] = set()

    async def to_the_end(self) -> None:
        await self.engine.submit_flow(self.graph.args())
        for _ in range(40 + 4 * len(self.graph.nodes)):
            self.clock.advance(1)
            await (self._replay() if self.rng.random() < 0.1 else self._something())
        self.graph.fates = ["good"] * len(self.graph.nodes)
        await self._until_quiet()
        left = {member.public_state for member in await self._members() if not member.is_ended}
        assert left <= {"waiting_children"}, f"still {left}"
        assert [str(violation) for violation in drained(await self.sound())] == []
        await self.engine.cancel_flow(self.graph.flow)
        await self._tick()
        assert {member.public_state for member in await self._members()} <= set(ENDED)
        assert [str(violation) for violation in drained(await self.sound())] == []

    async def _until_quiet(self) -> None:
        for _ in range(MAX_QUIET):
            await self._tick()
            while await self._claim():
                while self.held:
                    await self._finish()
            if {member.public_state for member in await self._members()} <= {
                *ENDED,
                "waiting_children",
            }:
                break
        for _ in range(2):
            await self._tick()

    async def _members(self) -> list[Member]:
        return await self.engine.flow_members(self.graph.flow)

    async def _claim(self) -> int:
        before = dict(self.held)
        count = await super()._claim()
        new = [
            node
            for node, work in self.held.items()
            if before.get(node) is not work and node not in self.free
        ]
        keys = [
            (self.graph.nodes[n].partition_index, self.graph.flow, self.graph.nodes[n].uuid)
            for n in new
        ]
        rows = (await self.engine.store.load((GetAll("ff_edge_group", keys),))).rows[0]
        for group in (EdgeGroup(*row) for row in rows):
            assert group.group_state == "satisfied", (
                f"{group.downstream_eid} was claimed while its group was {group.group_state}"
            )
        return count

    async def _replay(self) -> None:
        ended = [member for member in await self._members() if member.is_ended]
        if not ended:
            return
        member = self.rng.choice([m for m in ended if m.terminal_outcome == "skipped"] or ended)
        if self.rng.random() < 0.4:
            member = self.rng.choice(ended)
        node = self.at[member.id]
        try:
            answer = await self.engine.replay_execution(ReplayExecutionArgs(execution_id=member.id))
        except EngineError:
            return
        if answer.public_state is PublicState.WAITING_CHILDREN:
            self.free.discard(node)
            self.firings.forget(lambda key: key[2] == member.execution_id)
        else:
            self.free.add(node)
