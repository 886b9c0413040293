"""What a table and an index are."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from flowfabric.plan import Cond


class Column(Struct, frozen=True):
    name: str
    kind: str
    null: bool
    default: Any


class Child(Struct, frozen=True):
    """Rows of another table that go when their owner goes: its key columns hold the owner's, `renamed` ones by another name."""

    table: str
    renamed: tuple[tuple[str, str], ...] = ()

    def column(self, key: str) -> str:
        return dict(self.renamed).get(key, key)


class Table(Struct, frozen=True):
    """News of an outbox that is not `urgent` may wait for other news on its way to other processes."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    names: tuple[str, ...]
    kinds: dict[str, str]
    children: tuple[Child, ...] = ()
    outbox: bool = False
    urgent: bool = True


class Index(Struct, frozen=True):
    """Rows for which `where` holds, in `order` within each `group`.

    `primary` means that the table's own key serves it, `served_by` names another index that does: nothing is made for either.
    """

    name: str
    table: str
    order: tuple[str, ...]
    group: tuple[str, ...] = ()
    where: tuple[Cond, ...] = ()
    descending: tuple[str, ...] = ()
    primary: bool = False
    served_by: str = ""

    @property
    def is_made(self) -> bool:
        return not self.primary and not self.served_by


def table(
    name: str,
    columns: str,
    children: tuple[str | Child, ...] = (),
    *,
    outbox: bool = False,
    urgent: bool = True,
) -> Table:
    parsed, key = [], []
    for line in columns.replace("\n", " ").split(","):
        column, _, rest = line.strip().partition(" ")
        if not column:
            continue
        kind, _, default = rest.partition("=")
        if kind.endswith("!"):
            key.append(column)
        plain = kind.rstrip("!?")
        value: Any = None
        if default:
            value = int(default) if plain == "int" else default.strip("'")
        parsed.append(Column(column, plain, kind.endswith("?"), value))
    kinds = {column.name: column.kind for column in parsed}
    owned = tuple(c if isinstance(c, Child) else Child(c) for c in children)
    return Table(name, tuple(parsed), tuple(key), tuple(kinds), kinds, owned, outbox, urgent)
