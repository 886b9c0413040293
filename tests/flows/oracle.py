"""The expected outcome of a flow, computed in plain Python from its graph and the external ends in
order.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

DEEPEST = 50


@dataclass
class Group:
    """The inbound edges of one node; `k` is 0 where all of them are needed."""

    total: int = 0
    k: int = 0
    cancels: bool = False
    good: int = 0
    lost: int = 0
    state: str = "pending"

    def count(self, success: bool) -> bool:
        """Whether that decided it."""
        self.good, self.lost = self.good + success, self.lost + (not success)
        if self.state != "pending":
            return False
        if self.good >= (self.k or self.total):
            self.state = "satisfied"
        elif self.lost > self.total - (self.k or self.total):
            self.state = "impossible"
        return self.state != "pending"


class Oracle:
    """`ended` holds the outcome of each ended node. An end is handled at once, or at the next
    repair if its process died. A process may also die halfway, after it has counted and before it
    cancels the losers: those are owed then.
    """

    def __init__(
        self,
        nodes: Iterable[int],
        edges: Iterable[tuple[int, int]],
        policies: dict[int, tuple[int, bool]],
        content: Container[int] = (),
    ) -> None:
        self.ended: dict[int, str] = {}
        self.after: dict[int, list[tuple[int, bool]]] = {node: [] for node in nodes}
        self.before: dict[int, list[int]] = {node: [] for node in self.after}
        self.groups: dict[int, Group] = {}
        for at, (up, down) in enumerate(edges):
            self.after[up].append((down, at in content))
            self.before[down].append(up)
            self.groups.setdefault(down, Group()).total += 1
        for node, (k, cancels) in policies.items():
            self.groups[node].k, self.groups[node].cancels = k, cancels
        self.counted: set[int] = set()
        self.losers: set[int] = set()
        """Cancelled because a satisfied join did not need them."""
        self.given_up: set[int] = set()
        """Cancelled because a join had become impossible."""
        self.unheard: list[int] = []
        self.owed: list[int] = []

    def may_run(self, node: int) -> bool:
        return node not in self.groups or self.groups[node].state == "satisfied"

    def end(self, ends: dict[int, str], how: str = "heard") -> None:
        for node, outcome in ends.items():
            assert self.ended.setdefault(node, outcome) == outcome, (
                f"{node} ended {outcome} and {self.ended[node]}"
            )
        if how == "unheard":
            self.unheard += ends
        else:
            self._spread(list(ends), halfway=how == "halfway")

    @property
    def flow_state(self) -> str:
        """That of the flow, when every member has ended."""
        harmless = {"success", "skipped"}
        bad = {node for node, outcome in self.ended.items() if outcome not in harmless}
        return "failed" if bad - self.losers else "completed"

    def repair(self) -> None:
        unheard, self.unheard = self.unheard, []
        self._spread(unheard)
        owed, self.owed = self.owed, []
        for node in owed:
            self._spread(self._cancel_losers(node))

    def _spread(self, level: list[int], *, halfway: bool = False) -> None:
        for _ in range(DEEPEST + 1):
            fired = self._count(level)
            skipped = [
                n for n in fired if self.groups[n].state == "impossible" and n not in self.ended
            ]
            self.ended.update(dict.fromkeys(skipped, "skipped"))
            cancelling = [n for n in fired if self.groups[n].cancels]
            if halfway and cancelling:
                self.owed += cancelling
                self.unheard += skipped
                return
            level = skipped + [loser for node in cancelling for loser in self._cancel_losers(node)]
            if not level:
                return
        self.unheard += level

    def _count(self, level: list[int]) -> list[int]:
        fired = []
        for node in level:
            if node in self.counted:
                continue
            self.counted.add(node)
            good = self.ended[node] == "success"
            fired += [
                down
                for down, content in self.after[node]
                if self.groups[down].count(good or content)
            ]
        return fired

    def _cancel_losers(self, node: int) -> list[int]:
        losers = [up for up in dict.fromkeys(self.before[node]) if up not in self.ended]
        won = self.groups[node].state == "satisfied"
        (self.losers if won else self.given_up).update(losers)
        self.ended.update(dict.fromkeys(losers, "cancelled"))
        return losers
