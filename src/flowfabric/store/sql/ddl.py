"""The declared schema as SQLite statements. The shipped migration is this text; a test holds them equal."""

from __future__ import annotations

from flowfabric.plan import Cond
from flowfabric.store.schema import INDEXES, TABLES, Column, Index, Table

_SQLITE_TYPES = {
    "int": "INTEGER",
    "text": "TEXT",
    "uuid": "BLOB",
    "uuidtext": "TEXT",
    "bytes": "BLOB",
    "json": "TEXT",
    "list": "TEXT",
}


def sqlite_schema() -> str:
    statements = [_sqlite_table(t) for t in TABLES.values()]
    statements += [index_statement(i) for i in INDEXES.values() if not i.primary]
    return "".join(f"{s};\n\n" for s in statements)


def _sqlite_table(table: Table) -> str:
    numbered = table.columns[0].kind == "auto"
    lines = [_sqlite_column(c) for c in table.columns]
    if not numbered:
        lines.append(f"PRIMARY KEY ({', '.join(table.key)})")
    return f"CREATE TABLE {table.name} (\n    " + ",\n    ".join(lines) + "\n)"


def _sqlite_column(column: Column) -> str:
    if column.kind == "auto":
        return f"{column.name} INTEGER PRIMARY KEY AUTOINCREMENT"
    text = f"{column.name} {_SQLITE_TYPES[column.kind]}"
    if not column.null:
        text += " NOT NULL"
    if column.default is not None:
        text += f" DEFAULT {literal(column.default)}"
    return text


def index_statement(index: Index) -> str:
    columns = ", ".join((*index.group, index_order(index)))
    text = f"CREATE INDEX {index_name(index)} ON {index.table} ({columns})"
    return text + (f" WHERE {index_predicate(index)}" if index.where else "")


def index_name(index: Index) -> str:
    return f"{index.table}_{index.name}_idx"


def index_order(index: Index, prefix: str = "") -> str:
    return ", ".join(f"{prefix}{c} DESC" if c in index.descending else prefix + c for c in index.order)


def index_predicate(index: Index, prefix: str = "") -> str:
    return " AND ".join(_constant_cond(c, prefix) for c in index.where)


def _constant_cond(cond: Cond, prefix: str) -> str:
    column = prefix + cond.column
    match cond.op:
        case "is null":
            return f"{column} IS NULL"
        case "not null":
            return f"{column} IS NOT NULL"
        case "in":
            return f"{column} IN ({', '.join(literal(v) for v in cond.value)})"
        case op:
            return f"{column} {op} {literal(cond.value)}"


def literal(value: object) -> str:
    """A constant of ours as SQL text; values of callers are always parameters."""
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(int(value))
    assert isinstance(value, str)
    return "'" + value.replace("'", "''") + "'"


if __name__ == "__main__":
    print(sqlite_schema(), end="")
