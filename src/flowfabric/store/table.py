"""The types of the schema declaration: columns, tables and indexes."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from flowfabric.plan import Cond


class Column(Struct, frozen=True):
    name: str
    kind: str
    null: bool
    default: int | str | None


class Child(Struct, frozen=True):
    """A table whose rows are deleted with their owner: its key columns hold the owner's key.

    `renamed` pairs an owner's key column with the child's column of another name.
    """

    table: str
    renamed: tuple[tuple[str, str], ...] = ()

    def column(self, key: str) -> str:
        return dict(self.renamed).get(key, key)


class Table(Struct, frozen=True):
    """An outbox that is not `urgent` may delay its notifications to other processes."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    names: tuple[str, ...]
    kinds: dict[str, str]
    children: tuple[Child, ...] = ()
    outbox: bool = False
    urgent: bool = True

    @property
    def is_numbered(self) -> bool:
        """The database draws the key, so an insert never meets an existing row."""
        return self.columns[0].kind == "auto"


class Index(Struct, frozen=True):
    """Rows that satisfy `where`, in `order` within each `group`.

    A `primary` index is the table's key, and `served_by` names another index: neither is created.
    With `whole_if_free`, a store whose index costs nothing while its columns keep their values
    leaves `where` out of it; reads test it all the same.
    """

    name: str
    table: str
    order: tuple[str, ...]
    group: tuple[str, ...] = ()
    where: tuple[Cond, ...] = ()
    descending: tuple[str, ...] = ()
    primary: bool = False
    served_by: str = ""
    whole_if_free: bool = False

    @property
    def is_created(self) -> bool:
        return not self.primary and not self.served_by

    def bound_column(self) -> str:
        """The column that an upper bound compares: the first of the order, which must ascend."""
        first = self.order[0]
        assert first not in self.descending, f"{self.name}: a bound needs an ascending index"
        return first


def table(
    name: str,
    columns: str,
    children: tuple[str | Child, ...] = (),
    *,
    outbox: bool = False,
    urgent: bool = True,
) -> Table:
    parsed, key = [], []
    for text in columns.split(","):
        column, _, rest = text.strip().partition(" ")
        kind, _, default = rest.partition("=")
        if kind.endswith("!"):
            key.append(column)
        plain = kind.rstrip("!?")
        value: int | str | None = None
        if default:
            value = int(default) if plain == "int" else default.strip("'")
        parsed.append(Column(column, plain, kind.endswith("?"), value))
    kinds = {column.name: column.kind for column in parsed}
    owned = tuple(c if isinstance(c, Child) else Child(c) for c in children)
    return Table(name, tuple(parsed), tuple(key), tuple(kinds), kinds, owned, outbox, urgent)


IndexOf = Callable[[str, str], Index]
"""An index that still needs its name and its table."""


def index(
    order: str,
    group: str = "",
    *where: Cond,
    primary: bool = False,
    served_by: str = "",
    whole_if_free: bool = False,
) -> IndexOf:
    """Columns are separated by commas; `desc` after one makes it descend."""
    parts = order.split(", ")
    columns = tuple(part.removesuffix(" desc") for part in parts)
    descending = tuple(part.removesuffix(" desc") for part in parts if part.endswith(" desc"))
    groups = tuple(group.split(", ")) if group else ()
    return lambda name, table: Index(
        name, table, columns, groups, where, descending, primary, served_by, whole_if_free
    )
