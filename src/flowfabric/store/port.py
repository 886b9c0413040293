"""What an engine asks of a store. Implement this and run the conformance suite; no rule has to be written."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Protocol

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
    """One row by its key; `columns` narrows it."""

    table: str
    key: tuple[Any, ...]
    columns: tuple[str, ...] = ()


class Scan(Struct, frozen=True):
    """Rows of a declared index: one group, in its order, after a position, up to a bound on its first column.

    `columns` narrows the rows; empty means all of them.
    """

    index: str
    group: Mapping[str, Any] = {}
    after: tuple[Any, ...] | None = None
    upto: Any = None
    limit: int = 100
    columns: tuple[str, ...] = ()


class GetAll(Struct, frozen=True):
    """Many rows of one table by their keys: those that exist, in no particular order."""

    table: str
    keys: Sequence[tuple[Any, ...]]
    columns: tuple[str, ...] = ()


class ScanAll(Struct, frozen=True):
    """The first rows of many groups of a declared index, group after group in no particular order."""

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
    """How many rows of a declared index share the values of some columns: rows of those values, then the number.

    Of one group, or without one of the whole index, in its order, and never of more than the first `limit` rows.
    """

    index: str
    limit: int
    columns: tuple[str, ...]
    group: Mapping[str, Any] = {}


Read = Get | Scan | GetAll | ScanAll | Tally


class Loaded(Struct, frozen=True):
    """The store's clock, and one list of rows per read, in the order asked. Rows are tuples in column order."""

    now_ms: int
    rows: list[list[Row]]


class Store(Protocol):
    """A store applies plans atomically, hands out rows, and rings the hub after each commit. Texts hold no NUL."""

    @property
    def label(self) -> str: ...

    @property
    def tag(self) -> BackendTag: ...

    @property
    def durability(self) -> str: ...

    @property
    def hub(self) -> Wakeups: ...

    def prepare(self) -> Awaitable[str | None]:
        """Makes the schema current; what was done, or None."""

    def close(self) -> Awaitable[None]: ...

    def now_ms(self) -> Awaitable[int]: ...

    def inside(self, connection: Any) -> Store:
        """This store in the transaction of a user's own connection, where there is such a thing."""

    def commit(self, plan: Plan) -> Awaitable[Answer]: ...

    def commit_together(self, plans: Sequence[Plan]) -> Awaitable[Answer]:
        """All of them in order, or none; answers for the last."""

    def commit_many(self, plans: Sequence[Plan]) -> Awaitable[list[Answer]]:
        """Each on its own; the answers in the order given, an exception standing for a plan that could not be run."""

    def sweep(self, plan: Plan, limit: int) -> Awaitable[list[Row]]:
        """Picks up to `limit` rows and applies the form to each; its `returning` columns, in pick order."""

    def sweeps(
        self, first: Sequence[Plan], wanted: Sequence[tuple[Plan, int]]
    ) -> Awaitable[list[list[Row]] | Refused]:
        """Plans in order, then sweeps, each with its limit, all in one transaction: refused by a plan, nothing is written."""

    def commit_and_sweep(
        self, plans: Sequence[Plan], plan: Plan, limit: int
    ) -> Awaitable[tuple[list[Answer], list[Row]]]:
        """As `commit_many` and `sweep` would answer, in one journey where that can be.

        It looks once: where others took what it had seen, it comes back with nothing although there is more.
        """

    def load(self, reads: Sequence[Read]) -> Awaitable[Loaded]: ...

    def read_events(self, channel: str, after: int, limit: int) -> Awaitable[list[Row]]:
        """Committed events above a number, ascending, without gaps. What cannot be read in a row stays as it is stored."""

    def last_event(self, channel: str) -> Awaitable[int]: ...

    def next_due(self, index: str) -> Awaitable[int | None]:
        """The first column of the first row of a declared index, or None when it is empty."""

    def longest_writer(self) -> Awaitable[LongWriter | None]:
        """The transaction that has been writing longest, where others than the engine write to the server."""

    def dump(self, tables: Iterable[str]) -> Awaitable[dict[str, list[Row]]]:
        """Whole tables, for the checkers."""
