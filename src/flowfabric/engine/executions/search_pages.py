"""Pages of a search: what is read for a page, and how the answers are merged in order.

A source is an index that holds some of the matches. Every source answers with its first matches
behind the position of the page. The page ends at its frontier, the first position from which on
one of the sources may hold matches that it has not answered with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct

from flowfabric.engine.executions.search_filter import Position
from flowfabric.model.search import SUMMARY_COLUMNS, ExecutionFilter, ExecutionSummary
from flowfabric.store.port import Condition, Find, Row

BY = ("created_at_ms", "execution_id")
_FIRST, _LAST = UUID(int=0), UUID(int=2**128 - 1)


class Source(Struct, frozen=True):
    """One group of an index, or all of it, of which so many rows are examined, or all rows."""

    index: str
    examine: int | None
    group: Mapping[str, Any] = {}


class Examined(Struct, frozen=True):
    """Matches in order, and the frontier behind which others may follow."""

    hits: list[ExecutionSummary]
    frontier: Position | None


class Query(Struct, frozen=True):
    """The conditions of a page, where it begins, and how many it holds."""

    matches: tuple[Condition, ...]
    after: Position | None
    size: int
    descending: bool

    def find(self, source: Source) -> Find:
        return Find(
            source.index,
            BY,
            SUMMARY_COLUMNS,
            self.matches,
            source.group,
            self.descending,
            self.after,
            self.size,
            source.examine,
        )

    def behind(self, position: Position) -> Query:
        return Query(self.matches, position, self.size, self.descending)

    def begun(self, where: ExecutionFilter) -> Query:
        """Begins where the times of the filter begin."""
        edges = [] if self.after is None else [self.after]
        if self.descending:
            edges += [(at, _FIRST) for at in _upper(where)]
            return self.behind(min(edges)) if edges else self
        if where.created_from is not None:
            edges.append((where.created_from - 1, _LAST))
        return self.behind(max(edges)) if edges else self

    def is_past(self, position: Position, where: ExecutionFilter) -> bool:
        """Whether nothing behind this position can match."""
        created_at = position[0]
        if self.descending:
            return where.created_from is not None and created_at < where.created_from
        return any(created_at >= at for at in _upper(where))

    def merged(self, reads: Sequence[Find], answers: Iterable[list[Row]]) -> Examined | None:
        """The matches of all sources up to the frontier. None if a source that has another order
        has more rows than were examined.
        """
        found: dict[Position, ExecutionSummary] = {}
        frontiers: list[Position] = []
        for read, rows in zip(reads, answers, strict=True):
            edge = None if not rows or rows[-1][0] else position_of(_summary(rows.pop()))
            if edge is not None and not read.is_in_order:
                return None
            hits = [_summary(row) for row in rows]
            found.update((position_of(hit), hit) for hit in hits)
            if len(hits) == self.size:
                frontiers.append(position_of(hits[-1]))
            elif edge is not None:
                frontiers.append(edge)
        return self._until_frontier(found, frontiers)

    def _until_frontier(
        self, found: Mapping[Position, ExecutionSummary], frontiers: list[Position]
    ) -> Examined:
        nearest = max if self.descending else min
        frontier = nearest(frontiers) if frontiers else None
        ordered = sorted(found, reverse=self.descending)
        if frontier is not None:
            ordered = [at for at in ordered if nearest(at, frontier) == at]
        return Examined([found[at] for at in ordered], frontier)


def _upper(where: ExecutionFilter) -> list[int]:
    """Times before which an execution was created. It ends after that."""
    return [at for at in (where.created_before, where.ended_before) if at is not None]


def _summary(row: Row) -> ExecutionSummary:
    return ExecutionSummary(*row[1:])


def position_of(found: ExecutionSummary) -> Position:
    return found.created_at, found.execution_uuid
