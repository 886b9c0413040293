"""The specification of flows in plain Python, on top of that of executions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from flowfabric.ids import ExecutionId
from flowfabric.model import execution

from .fleet import Fleet
from .shapes import NO_POLICY, Exec
from .spec import OVERRIDE

SIBLINGS = "edge_cancel_dispatcher"


@dataclass
class Edge:
    """`dep` is how its upstream's end was counted; a `stale` end, from before a reset, does not
    count again.
    """

    up: ExecutionId
    down: ExecutionId
    dep: str = "unsatisfied"
    stale: bool = False


@dataclass
class Group:
    """`k` 0 means all. Losers are `owed` a cancel from the firing until they have it."""

    flow: UUID
    k: int = 0
    state: str = "pending"
    satisfied_at: int | None = None
    owed: list[ExecutionId] = field(default_factory=list)
    queued: bool = False
    lost: dict[str, int] = field(default_factory=lambda: {"fail": 0, "skip": 0})


class Flows(Fleet):
    """`how` says how ends are handled: at once, not because the process died, or without cancelling
    the losers.
    """

    def __init__(self, *said: Any) -> None:
        super().__init__(*said)
        self.how = "heard"
        self.edges: dict[UUID, Edge] = {}
        self.groups: dict[ExecutionId, Group] = {}
        self.flow_of: dict[ExecutionId, UUID] = {}
        self.cancelled: set[UUID] = set()
        self.losers: set[ExecutionId] = set()
        """Cancelled because a satisfied join did not need them."""
        self.unheard: list[ExecutionId] = []
        self._ends: list[ExecutionId] | None = None

    def inbound(self, child: ExecutionId, dep: str = "") -> list[Edge]:
        return [
            edge for edge in self.edges.values() if edge.down == child and dep in ("", edge.dep)
        ]

    # ---- building

    def submit(
        self,
        flow: UUID,
        lane: str,
        nodes: list[ExecutionId],
        edges: dict[UUID, Any],
        quorums: dict[ExecutionId, int],
    ) -> None:
        for ident in nodes:
            self.execs[ident] = Exec(ident, lane, "default", NO_POLICY, 0, self.now)
            self.flow_of[ident] = flow
        for name, (up, down) in edges.items():
            self.edges[name] = Edge(up, down)
            self.groups.setdefault(down, Group(flow, quorums.get(down, 0)))
            self.execs[down].state, self.execs[down].why = "DEPS", "waiting_for_children"

    def late_edge(
        self, flow: UUID, lane: str, name: UUID, up: ExecutionId, down: ExecutionId
    ) -> int:
        """A new member that an old one waits for."""
        self.create(up, lane, "default", 0, "", NO_POLICY, None)
        self.flow_of[up] = flow
        self.edges[name] = Edge(up, down)
        group, child = self.groups[down], self.execs[down]
        fired = group.state == "satisfied"
        if fired and not group.k:
            group.state, fired = "pending", False
        if child.state in ("READY", "DELAYED", "DEPS") and not fired:
            child.state, child.why, child.grant = "DEPS", "waiting_for_children", child.grant
        return len(self.inbound(down, "unsatisfied"))

    # ---- what follows from an end

    def end(self, e: Exec, outcome: str, phase: str, word: str) -> None:
        super().end(e, outcome, phase, word)
        for edge in self.edges.values():
            edge.stale = edge.stale and edge.up != e.ident
        if e.ident not in self.flow_of:
            return
        if self._ends is not None:
            self._ends.append(e.ident)
        else:
            self.heard([e.ident])

    def heard(self, ended: list[ExecutionId]) -> bool:
        """False if the process was killed."""
        if self.how == "unheard":
            self.unheard += ended
            return False
        return self.spread(ended)

    def complete_and_claim(self, many: Any, *said: Any) -> tuple[Any, ...]:
        """A call that finds no work claims what its ends release, unless its process is killed."""
        self._ends = []
        told = super().complete_and_claim(many, *said)
        ended, self._ends = self._ends, None
        if self.heard(ended) and ended and not told[-1]:
            *_, works = super().complete_and_claim([], *said)
            return *told[:-1], works
        return told

    def spread(self, level: list[ExecutionId]) -> bool:
        while level:
            self._ends = []
            fired = [child for ident in dict.fromkeys(level) for child in self._count(ident)]
            for child in fired:
                self._settle(self.execs[child], self.groups[child])
            losers = [child for child in fired if self.groups[child].queued]
            killed = self.how == "halfway" and losers
            if not killed:
                for child in losers:
                    self._cancel_losers(child)
            level, self._ends = self._ends, None
            if killed:
                self.unheard += level
                return False
        return True

    def _count(self, ident: ExecutionId) -> list[ExecutionId]:
        fired, outcome = [], self.execs[ident].outcome
        for edge in self.edges.values():
            if (
                edge.up != ident
                or edge.dep != "unsatisfied"
                or outcome == "none"
                or (edge.stale and outcome != "success")
            ):
                continue
            edge.dep = "satisfied" if outcome == "success" else "impossible"
            group = self.groups[edge.down]
            if outcome != "success":
                group.lost["skip" if outcome == "skipped" else "fail"] += 1
            if group.state == "pending":
                total, good = (
                    len(self.inbound(edge.down)),
                    len(self.inbound(edge.down, "satisfied")),
                )
                enough, bad = group.k or total, sum(group.lost.values())
                group.state = (
                    "satisfied"
                    if good >= enough
                    else "impossible"
                    if bad > total - enough
                    else "pending"
                )
                fired += [edge.down] if group.state != "pending" else []
                group.satisfied_at = self.now if group.state == "satisfied" else group.satisfied_at
        return fired

    def _settle(self, child: Exec, group: Group) -> None:
        if group.k:
            ups = [edge.up for edge in self.inbound(child.ident)]
            group.owed, group.queued = [up for up in ups if self.execs[up].state != "ENDED"], True
        if group.state == "satisfied" and child.state == "DEPS":
            child.state, child.why = "READY", ""
        elif group.state == "impossible" and child.state != "ENDED":
            if child.state == "RUNNING":
                self.told(child, "revoked")
            self.end(child, "skipped", "ended_cancelled", "skipped")

    def _cancel_losers(self, child: ExecutionId) -> None:
        group = self.groups[child]
        for loser in group.owed:
            if self.execs[loser].state != "ENDED":
                self.cancel(loser, OVERRIDE)
                self.losers |= {loser} if group.state == "satisfied" else set()
        group.owed, group.queued = [], False

    def flow_state(self, flow: UUID) -> str | None:
        """How the flow has ended, when all of its members have."""
        members = [self.execs[ident] for ident, of in self.flow_of.items() if of == flow]
        if any(member.state != "ENDED" for member in members):
            return None
        fine = [m.outcome in ("success", "skipped") or m.ident in self.losers for m in members]
        return "completed" if all(fine) else "failed"

    # ---- operators and repair

    def cancel_flow(self, flow: UUID) -> list[ExecutionId]:
        self.cancelled.add(flow)
        done, self._ends = [], []
        for ident in [
            i for i, f in self.flow_of.items() if f == flow and self.execs[i].state != "ENDED"
        ]:
            leased = self.execs[ident].state == "RUNNING"
            self.cancel(ident, OVERRIDE)
            self.execs[ident].cancelled_by = "cancel_flow"  # type: ignore[assignment]
            if not leased:
                self.told(self.execs[ident], "revoked")
            done.append(ident)
        self._ends = None
        if self.how == "unheard":
            self.unheard += done
        else:
            self.spread(done)
        return done

    def replay(self, ident: ExecutionId) -> Any:
        e, skipped = self.of(ident), self.of(ident).outcome == "skipped"
        answer = super().replay(ident)
        self.losers.discard(ident)
        if not skipped:
            return answer
        e.state, e.why, e.ops[-1] = (
            "DEPS",
            "waiting_for_children",
            ("replayed", '{"branch":"skipped_flow_member","groups_reset":1}'),
        )
        group = self.groups[ident]
        group.state, group.owed, group.queued, group.lost = (
            "pending",
            [],
            False,
            {"fail": 0, "skip": 0},
        )
        group.satisfied_at = None
        for edge in self.inbound(ident, "impossible"):
            edge.dep, edge.stale = "unsatisfied", self.execs[edge.up].state == "ENDED"
        if self.how != "unheard":
            self.spread([edge.up for edge in self.inbound(ident, "unsatisfied")])
        return execution.Replayed("waiting_children")  # type: ignore[arg-type]

    def loop(self, name: str) -> None:
        super().loop(name)
        if name == "dependency_reconciler":
            unheard, self.unheard = self.unheard, []
            self.spread(
                [*unheard, *(edge.up for edge in self.edges.values() if edge.dep == "unsatisfied")]
            )
        elif name == SIBLINGS:
            for child in [child for child, group in self.groups.items() if group.queued]:
                self._ends = []
                self._cancel_losers(child)
                ends, self._ends = self._ends, None
                self.spread(ends)
