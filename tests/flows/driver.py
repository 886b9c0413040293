"""Drives one flow to its end: workers, operators, crashes and the clock, all drawn from one seed,
compared with an oracle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from random import Random
from typing import Any

from flowfabric.engine.core import Settings
from flowfabric.engine.engine import Engine
from flowfabric.engine.flows.cascade import Cascade
from flowfabric.engine.flows.sibling_cancels import MAX_GROUPS
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.attempt import FailureClass, TerminalFailed
from flowfabric.model.execution import CancelExecutionArgs, Expired
from flowfabric.model.flow import CancelFlowPolicy, FlowSubmitted
from flowfabric.model.lease import ClaimPolicy, ReclaimCapExceeded, Work
from flowfabric.testing import ManualClock
from flowfabric.verify.flows import drained
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, Snapshot, snapshot_of

from .crashes import Dead, Firings, Halfway
from .graphs import DEADLINE_MS, LANE, Graph, Shape, grow
from .oracle import Oracle

SETTINGS = Settings(lease_reclaim_grace_ms=0)
TTL_MS = 5_000
ENDED = ("completed", "failed", "cancelled", "expired", "skipped")
SHOWN = {"success": "completed"}
MAX_ROUNDS = 3_000
CRASHES: tuple[tuple[type[Cascade], str], ...] = ((Dead, "unheard"), (Halfway, "halfway"))


class Run:
    """`how` is the kind of cascade in place: ends are heard, unheard or heard halfway."""

    def __init__(
        self, engine: Engine, clock: ManualClock, shape: Shape, *, together: bool = False
    ) -> None:
        self.graph: Graph = grow(shape)
        self.rng = Random(f"{shape.seed}/run")
        self.clock, self.together = clock, together
        self.firings = Firings()
        self.engine, self.how = self.firings.watch(engine), "heard"
        self.at = {ident: node for node, ident in enumerate(self.graph.nodes)}
        self.oracle = Oracle(
            range(shape.size), self.graph.edges, self.graph.policies, self.graph.content
        )
        self.held: dict[int, Work] = {}
        self.tried: set[int] = set()
        self.leased: dict[int, int] = {}
        self.began = clock()
        self.flow_cancelled = False

    # ---- the whole story

    async def to_the_end(self) -> None:
        assert isinstance(await self.engine.submit_flow(self.graph.args()), FlowSubmitted)
        for _ in range(MAX_ROUNDS):
            if (
                len(self.oracle.ended) == len(self.graph.nodes)
                and not self.oracle.unheard
                and not self.oracle.owed
            ):
                break
            await self._something()
        await self._tick()
        await self.compare()

    async def compare(self) -> None:
        world = await self.sound()
        assert [str(violation) for violation in drained(world)] == []
        found = [
            world.executions[ident.partition_index, ident.uuid].public_state
            for ident in self.graph.nodes
        ]
        wanted = [self._shown(node) for node in range(len(self.graph.nodes))]
        if self.together:  # whether a node is skipped or cancelled first is then up to chance
            found, wanted = (
                [["skipped", s][s != "cancelled"] for s in found],
                [["skipped", s][s != "cancelled"] for s in wanted],
            )
        wrong = {
            node: pair
            for node, pair in enumerate(zip(wanted, found, strict=True))
            if pair[0] != pair[1]
        }
        assert not wrong, f"foretold and found: {wrong}"
        if not (self.together and self.oracle.given_up):
            await self._compare_flow()

    async def _compare_flow(self) -> None:
        await self.engine.project_flow_summary(self.graph.flow)
        summary = await self.engine.read_flow_summary(self.graph.flow)
        assert summary is not None
        assert summary.public_flow_state == self.oracle.flow_state

    def _shown(self, node: int) -> str:
        outcome = self.oracle.ended.get(node, "not over")
        return SHOWN.get(outcome, outcome)

    async def sound(self) -> Snapshot:
        await self.engine.parts.core.cascade.finish()
        world = snapshot_of(await self.engine.store.dump(TABLES_READ))
        assert [str(violation) for violation in check(world)] == []
        return world

    async def _something(self) -> None:
        draw = self.rng.random()
        if self.held and draw < 0.55:
            await self._finish()
        elif draw < 0.85:
            if not await self._claim() and not self.held:
                await self._tick()
        elif draw < 0.88:
            await self._crash()
        elif draw < 0.90:
            await self._cancel_any()
        elif draw < 0.903 and not self.flow_cancelled:
            await self._cancel_flow()
        elif draw < 0.94:
            await self._tick()

    # ---- workers

    async def _claim(self) -> int:
        works = await self.engine.claim_many(
            LANE, (), ClaimPolicy("w", "w-1", TTL_MS), self.rng.randint(1, 8)
        )
        for work in works:
            node = self.at[work.execution_id]
            assert self.oracle.may_run(node), f"{node} was claimed before its group was satisfied"
            assert node not in self.oracle.ended, f"{node} was claimed after its end"
            self.held[node], self.leased[node] = work, work.lease_expires_at
        return len(works)

    async def _finish(self) -> None:
        some = self.rng.sample(
            sorted(self.held), min(len(self.held), self.rng.choice((1, 1, 2, 5)))
        )
        if self.together:
            ends = await asyncio.gather(*(self._work(node, self.held.pop(node)) for node in some))
            self._over({node: outcome for node, outcome in zip(some, ends, strict=True) if outcome})
            return
        good = [
            node
            for node in some
            if self.graph.fates[node] in ("good", "lost") and self._patient(node)
        ]
        if len(good) > 1:
            works = [self.held.pop(node) for node in good]
            answers = await self.engine.complete_many([(work.handle, b"x") for work in works])
            self._over(
                {
                    node: "success"
                    for node, answer in zip(good, answers, strict=True)
                    if answer is None
                }
            )
            return
        node = some[0]
        outcome = await self._work(node, self.held.pop(node))
        self._over({node: outcome} if outcome else {})

    def _patient(self, node: int) -> bool:
        """Some hold their lease for too long, the first time."""
        slow = self.graph.fates[node].startswith(("lost", "overdue")) and node not in self.tried
        self.tried.add(node)
        return not slow

    async def _work(self, node: int, work: Work) -> str | None:
        """The outcome, if it ended."""
        fate, first = self.graph.fates[node], node not in self.tried
        if fate in ("overdue", "lost for good") or not self._patient(node):
            return None
        if fate in ("bad", "given up") or (fate == "retried" and first):
            kind = FailureClass.PERMANENT if fate == "bad" else FailureClass.TRANSIENT
            answer = await self._ask(self.engine.fail(work.handle, "no", kind))
            return "failed" if isinstance(answer, TerminalFailed) else None
        if fate == "postponed" and first:
            await self._ask(self.engine.delay(work.handle, self.clock() + 700))
            return None
        if fate == "cancelled":
            return await self._cancel(node)
        return (
            "success" if await self._ask(self.engine.complete(work.handle, b"x")) is None else None
        )

    async def _ask(self, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except EngineError as refusal:
            return refusal

    def _over(self, ends: dict[int, str]) -> None:
        self.oracle.end(ends, self.how)
        for node in self.oracle.ended:
            self.held.pop(node, None)
            self.leased.pop(node, None)

    # ---- operators, time and death

    async def _cancel(self, node: int) -> str | None:
        args = CancelExecutionArgs(execution_id=self.graph.nodes[node], reason="stop")
        answer = await self._ask(self.engine.cancel_execution(args))
        return None if isinstance(answer, EngineError) or node in self.oracle.ended else "cancelled"

    async def _cancel_any(self) -> None:
        node = self.rng.randrange(len(self.graph.nodes))
        outcome = await self._cancel(node)
        self._over({node: outcome} if outcome else {})

    async def _cancel_flow(self) -> None:
        self.flow_cancelled = True
        policy = self.rng.choice(list(CancelFlowPolicy))
        done = await self.engine.cancel_flow(self.graph.flow, policy)
        self._over({self.at[ident]: "cancelled" for ident in done.member_execution_ids})

    async def _tick(self) -> None:
        """Advances the clock and runs the loops of a healthy process. Executions that they would
        end are ended one by one, so that the order is known.
        """
        await self._recover()
        self.clock.advance(self.rng.randint(1_100, 3_000))
        if self.clock() >= self.began + DEADLINE_MS:
            for node in [
                n
                for n, fate in enumerate(self.graph.fates)
                if fate == "overdue" and n not in self.oracle.ended
            ]:
                answer = await self.engine.expire_execution(
                    self.graph.nodes[node], "execution_deadline"
                )
                self._over({node: "expired"} if isinstance(answer, Expired) else {})
        for node in [node for node, until in self.leased.items() if until <= self.clock()]:
            if self.leased.pop(node, None) is not None:
                await self._lose(node, self.graph.nodes[node])
        loops = Supervisor(self.engine)
        for _ in range(1 + len(self.graph.nodes) // MAX_GROUPS):
            await loops.run_once()
        self.oracle.repair()
        self._over({})

    async def _lose(self, node: int, ident: ExecutionId) -> None:
        self.held.pop(node, None)
        await self.engine.mark_lease_expired_if_due(ident)
        if isinstance(await self.engine.requeue_lost(ident), ReclaimCapExceeded):
            self._over({node: "failed"})

    async def _crash(self) -> None:
        """From now on ends start no cascade, or half of one, until another process takes over."""
        kind, self.how = self.rng.choice(CRASHES)
        self.firings.watch(self.engine, kind)

    async def _recover(self) -> None:
        if self.how != "heard":
            fresh = type(self.engine)(self.engine.store, SETTINGS, seed=1)
            self.engine, self.how = self.firings.watch(fresh), "heard"
