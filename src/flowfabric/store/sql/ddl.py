"""The declared schema as SQL. A test compares the shipped migrations with this text."""

from __future__ import annotations

import sys
from collections.abc import Callable

from msgspec.structs import replace

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
    "real": "REAL",
}

PG_TYPES = {
    "auto": "bigint",
    "int": "bigint",
    "text": "text",
    "uuid": "uuid",
    "uuidtext": "uuid",
    "bytes": "bytea",
    "json": "json",
    "list": "text[]",
    "uuids": "uuid[]",
    "real": "double precision",
    "items": "json",
}
_OFTEN_VACUUMED = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0"
PG_LEADER = """CREATE TABLE ff_leader (
    name text COLLATE "C" NOT NULL,
    holder text COLLATE "C" NOT NULL,
    backend bigint NOT NULL,
    until_ms bigint NOT NULL,
    PRIMARY KEY (name)
)"""
"""The lease of the process that runs the loops; the other stores elect no leader."""
SQLITE_CLOCK = """CREATE TABLE ff_clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    latest_ms INTEGER NOT NULL
)"""
"""The time of a database that is ahead of the wall clock; its processes share it."""
_PG_COUNTERS = {
    "ff_exec_core": (
        "version",
        "lease_epoch",
        "attempt_index",
        "total_attempt_count",
        "retry_count",
        "replay_count",
        "lease_reclaim_count",
        "max_reclaim_count",
        "closing_epoch",
        "closing_attempt_index",
        "expired_epoch",
        "pending_previous_attempt_index",
        "progress_pct",
    )
}
"""Columns that hold no more than 2^31: half as wide in the row that every operation writes."""
_PG_CONSTANT = {
    "ff_exec_core": {
        *("created_at_ms", "flow_id", "quota_policy_id", "deadline_at_ms", "attempt_timeout_ms"),
        *("retention_ttl_ms", "failed_retention_ttl_ms", "max_reclaim_count", "lane_id"),
        *("namespace", "instance_tag", "execution_kind", "creator_identity", "idempotency_key"),
        *("deadline_origin", "payload_encoding", "required_capabilities", "budget_ids"),
        *("raw_fields", "policy", "tags", "gate", "priority", "payload"),
    },
    "ff_attempt": {
        *("attempt_id", "lease_id", "lease_epoch", "created_at_ms", "started_at_ms"),
        *("previous_attempt_index", "replayed_from_attempt_index", "attempt_type", "worker_id"),
        *("worker_instance_id", "retry_reason", "replay_reason", "replay_requested_by", "policy"),
        *("raw_fields", "usage"),
    },
}
"""Columns that an ordinary claim or end leaves as they are. The server logs a new version on the
same page without the columns before the first and behind the last that changed.
"""
_FIXED_WIDTH = ("auto", "int", "real", "uuid", "uuidtext")
_PG_STORAGE = {
    "ff_exec_core": f" WITH (fillfactor = 50, toast_tuple_target = 512, {_OFTEN_VACUUMED})",
    "ff_attempt": f" WITH (fillfactor = 70, {_OFTEN_VACUUMED})",
}


def sqlite_schema() -> str:
    statements = [*(_sqlite_table(t) for t in TABLES.values()), SQLITE_CLOCK]
    statements += [_sqlite_index(i) for i in INDEXES.values() if i.is_created]
    return "".join(f"{s};\n\n" for s in statements)


def _sqlite_index(index: Index) -> str:
    """An update of other columns does not touch an index without a condition."""
    return index_statement(replace(index, where=()) if index.whole_if_free else index)


def _sqlite_table(table: Table) -> str:
    lines = [_sqlite_column(c) for c in table.columns]
    if not table.is_numbered:
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


def postgres_schema() -> str:
    statements = [*(_postgres_table(t) for t in TABLES.values()), PG_LEADER]
    statements += [index_statement(i) for i in INDEXES.values() if i.is_created]
    return "".join(f"{s};\n\n" for s in statements)


def _postgres_table(table: Table) -> str:
    lines = [_postgres_column(table, c) for c in _pg_order(table)]
    lines.append(f"PRIMARY KEY ({', '.join(table.key)})")
    return (
        f"CREATE TABLE {table.name} (\n    "
        + ",\n    ".join(lines)
        + f"\n){_PG_STORAGE.get(table.name, '')}"
    )


def _pg_order(table: Table) -> list[Column]:
    """Constant columns first, those of fixed width before others, large values last."""
    if table.name not in _PG_CONSTANT and not table.outbox:
        return list(table.columns)
    constant = _PG_CONSTANT.get(table.name, ())

    def rank(column: Column) -> tuple[bool, bool, bool, bool]:
        is_constant, is_large = column.name in constant, column.kind == "bytes"
        return (
            column.name not in table.key,
            is_large,
            is_constant if is_large else not is_constant,
            column.kind not in _FIXED_WIDTH,
        )

    return sorted(table.columns, key=rank)


def _postgres_column(table: Table, column: Column) -> str:
    if column.kind == "auto":
        return f"{column.name} bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1)"
    narrow = column.name in _PG_COUNTERS.get(table.name, ())
    text = f"{column.name} {'integer' if narrow else PG_TYPES[column.kind]}"
    if PG_TYPES[column.kind] == "text":
        text += ' COLLATE "C"'
    if not column.null:
        text += " NOT NULL"
    if column.default is not None:
        text += " DEFAULT '{}'" if column.kind == "list" else f" DEFAULT {literal(column.default)}"
    return text


def index_statement(index: Index) -> str:
    columns = ", ".join((*index.group, index_order(index)))
    text = f"CREATE INDEX {index_name(index)} ON {index.table} ({columns})"
    return text + (f" WHERE {index_predicate(index)}" if index.where else "")


def index_name(index: Index) -> str:
    return f"{index.table}_{index.served_by or index.name}_idx"


def index_order(index: Index, prefix: str = "") -> str:
    return ", ".join(
        f"{prefix}{c} DESC" if c in index.descending else prefix + c for c in index.order
    )


def whole_order(index: Index) -> str:
    """The order of an index across its groups."""
    return ", ".join([*index.group, index_order(index)])


def index_predicate(index: Index, prefix: str = "") -> str:
    return " AND ".join(comparison(prefix + c.column, c, literal) for c in index.where)


def first_of(index: Index) -> str:
    """The first column of the first row of an index."""
    where = f" WHERE {index_predicate(index)}" if index.where else ""
    return (
        f"SELECT {index.order[0]} FROM {index.table}{where} ORDER BY {index_order(index)} LIMIT 1"
    )


def comparison(left: str, cond: Cond, right: Callable[[object], str]) -> str:
    """A condition on `left`; `right` renders the value it is compared with."""
    match cond.op:
        case "is null":
            return f"{left} IS NULL"
        case "not null":
            return f"{left} IS NOT NULL"
        case "in":
            return f"{left} IN ({', '.join(literal(v) for v in cond.value)})"
        case op:
            return f"{left} {op} {right(cond.value)}"


def literal(value: object) -> str:
    """A constant of a form as SQL text; values of callers are always parameters."""
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(int(value))
    assert isinstance(value, str)
    return "'" + value.replace("'", "''") + "'"


if __name__ == "__main__":
    print({"sqlite": sqlite_schema, "postgres": postgres_schema}[sys.argv[1]](), end="")
