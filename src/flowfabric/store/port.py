"""The interface of a store. An implementation is checked by the conformance suite."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from flowfabric.model.lease import BackendTag
from flowfabric.model.queue_stats import LongWriter
from flowfabric.plan import Answer, Plan, Refused
from flowfabric.store.schema import INDEXES
from flowfabric.store.wakeups import Wakeups

Row = tuple[Any, ...]

EVENT_PAGE = 256
CATCH_UP_PAGE = 1_024


class Get(Struct, frozen=True):
    """One row by its key. Without `columns`, a read returns all columns."""

    table: str
    key: tuple[Any, ...]
    columns: tuple[str, ...] = ()


class Scan(Struct, frozen=True):
    """Rows of one group of a declared index, in its order.

    `after` is a position, the values of the index's order; `upto` bounds its first column.
    """

    index: str
    group: Mapping[str, Any] = {}
    after: tuple[Any, ...] | None = None
    upto: Any = None
    limit: int = 100
    columns: tuple[str, ...] = ()


class GetAll(Struct, frozen=True):
    """The rows of one table that exist under these keys, in any order."""

    table: str
    keys: Sequence[tuple[Any, ...]]
    columns: tuple[str, ...] = ()


class ScanAll(Struct, frozen=True):
    """The first rows of many groups of a declared index; the groups come in any order."""

    index: str
    groups: Sequence[tuple[Any, ...]]
    limit: int = 100
    columns: tuple[str, ...] = ()

    def scans(self) -> list[Scan]:
        names = INDEXES[self.index].group
        return [
            Scan(
                self.index,
                dict(zip(names, group, strict=True)),
                limit=self.limit,
                columns=self.columns,
            )
            for group in self.groups
        ]


class Tally(Struct, frozen=True):
    """The values of some columns and the number of rows that share them.

    Counts the first `limit` rows of one group of a declared index, or of the whole index.
    """

    index: str
    limit: int
    columns: tuple[str, ...]
    group: Mapping[str, Any] = {}


class Match(Struct, frozen=True):
    """A condition of a search, on a column. `starts` and `contains` are about its text.

    A column without a value meets none of them.
    """

    column: str
    op: Literal["=", "<", "<=", ">", ">=", "in", "starts", "contains"]
    value: Any


class AnyMatch(Struct, frozen=True):
    """At least one of the conditions holds."""

    matches: tuple[Match, ...]


class Listed(Struct, frozen=True):
    """The value of a column occurs in the column of this name in one group of an index."""

    column: str
    index: str
    group: Mapping[str, Any]


Condition = Match | AnyMatch | Listed


class Find(Struct, frozen=True):
    """Rows that match, among the first `examine` rows of one group of a declared index, or of the
    whole index if `group` is empty.

    The rows come in the order of the columns `by`, which identify a row; `after` is a position in
    it. An index with this order is read from the position on, backwards if `descending`. Each row
    starts with a flag: true for a match, false for the last row examined, which comes last and only
    if the bound was reached. There is no bound if `examine` is None.
    """

    index: str
    by: tuple[str, ...]
    columns: tuple[str, ...]
    matches: tuple[Condition, ...] = ()
    group: Mapping[str, Any] = {}
    descending: bool = False
    after: tuple[Any, ...] | None = None
    limit: int = 100
    examine: int | None = 1_000

    @property
    def is_in_order(self) -> bool:
        """Whether the rows that are read have the order of the result."""
        index = INDEXES[self.index]
        return index.order == self.by and set(index.group) == set(self.group)


def columns_of(condition: Condition) -> tuple[str, ...]:
    if isinstance(condition, AnyMatch):
        return tuple(each.column for each in condition.matches)
    return (condition.column,)


class Count(Struct, frozen=True):
    """All rows of a table, counted by the values of some columns. It reads the whole table."""

    table: str
    columns: tuple[str, ...]


Read = Get | Scan | GetAll | ScanAll | Tally | Find | Count


class Loaded(Struct, frozen=True):
    """The store's clock, and one list of rows per read. Rows are tuples in column order."""

    now_ms: int
    rows: list[list[Row]]


class Store(Protocol):
    """Applies plans atomically, reads rows, and rings the hub after each commit.

    Texts contain no NUL.
    """

    @property
    def label(self) -> str: ...

    @property
    def tag(self) -> BackendTag: ...

    @property
    def durability(self) -> str: ...

    @property
    def hub(self) -> Wakeups: ...

    def prepare(self) -> Awaitable[str | None]:
        """Migrates the schema; returns what was done, or None."""

    def close(self) -> Awaitable[None]: ...

    def now_ms(self) -> Awaitable[int]: ...

    def inside(self, connection: object) -> Store:
        """This store in the transaction of a caller's own connection, where that is possible."""

    def commit(self, plan: Plan) -> Awaitable[Answer]: ...

    def commit_together(self, plans: Sequence[Plan]) -> Awaitable[Answer]:
        """All of them in order, or none; the answer to the last."""

    def commit_many(self, plans: Sequence[Plan]) -> Awaitable[list[Answer]]:
        """Each on its own, answered in order; a plan that failed is answered by an exception."""

    def sweep(self, plan: Plan, limit: int) -> Awaitable[list[Row]]:
        """Applies the form to up to `limit` picked rows; returns its `returning` columns."""

    def sweeps(
        self, first: Sequence[Plan], wanted: Sequence[tuple[Plan, int]]
    ) -> Awaitable[list[list[Row]] | Refused]:
        """Plans in order, then sweeps, in one transaction; a refused plan writes nothing."""

    def commit_and_sweep(
        self, plans: Sequence[Plan], plan: Plan, limit: int
    ) -> Awaitable[tuple[list[Answer], list[Row]]]:
        """`commit_many` and `sweep`, in one round trip where possible.

        The sweep does not retry: it returns nothing when other callers took the rows it selected,
        even if more rows match.
        """

    def load(self, reads: Sequence[Read]) -> Awaitable[Loaded]: ...

    def read_events(self, channel: str, after: int, limit: int) -> Awaitable[list[Row]]:
        """Committed events above a number, ascending, without gaps.

        An unreadable row is returned as it is stored.
        """

    def last_event(self, channel: str) -> Awaitable[int]: ...

    def next_due(self, index: str) -> Awaitable[int | None]:
        """The first column of the first row of a declared index; None when it is empty."""

    def longest_writer(self) -> Awaitable[LongWriter | None]:
        """The longest write transaction, where other programs write to the same server."""

    def maintain(self) -> Awaitable[int]:
        """Starts to reclaim the space of dead rows where that is worth it; returns how often."""

    def dump(self, tables: Iterable[str]) -> Awaitable[dict[str, list[Row]]]:
        """Whole tables, for verification."""
