"""What the planner says about a prepared statement, as a flat list of its nodes."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import psycopg

from flowfabric.store.postgres.connections import SESSION_SETTINGS
from flowfabric.store.schema import INDEXES, TABLES
from flowfabric.store.sql.ddl import index_name

from .filling import BIG

Node = dict[str, Any]
Session = psycopg.Connection[tuple[Any, ...]]
WALKS = ("Index Scan", "Index Only Scan")
FIRST_COLUMN = {f"{table.name}_pkey": table.key[0] for table in TABLES.values()}
FIRST_COLUMN |= {index_name(i): (*i.group, *i.order)[0] for i in INDEXES.values()}


def session(url: str, settings: dict[str, str]) -> Session:
    """A connection with the settings of a store's connection."""
    options = [
        f"-c {name}={value}".replace(" ", "\\ ").replace("-c\\ ", "-c ")
        for name, value in {**SESSION_SETTINGS, **settings}.items()
    ]
    return psycopg.connect(url, autocommit=True, options=" ".join(options))


def nodes(plan: Node, inside: str = "") -> Iterator[Node]:
    """Every node, with the part of the statement it belongs to under `Part`."""
    inside = plan.get("Subplan Name", inside)
    yield {**plan, "Part": inside}
    for child in plan.get("Plans", ()):
        yield from nodes(child, inside)


def prepared(db: Session, sql: str, params: Sequence[Any]) -> list[Node]:
    """The plan of a statement that is prepared and run as the store does it."""
    db.execute(f"PREPARE looked_at AS {sql}")
    try:
        return explained(db, "looked_at", params)
    finally:
        db.execute("DEALLOCATE looked_at")


def both_ways(db: Session, sql: str, params: Sequence[Any]) -> Iterator[list[Node]]:
    """The plan for these values and the generic plan; a server chooses between them."""
    for mode in ("force_custom_plan", "force_generic_plan"):
        db.execute(f"SET plan_cache_mode = {mode}")
        yield prepared(db, sql, params)


def explained(db: Session, name: str, params: Sequence[Any], how: str = "") -> list[Node]:
    given = f"({', '.join(map(quoted, params))})" if params else ""
    row = db.execute(f"EXPLAIN ({how}FORMAT JSON) EXECUTE {name}{given}").fetchone()
    assert row is not None
    return list(nodes(row[0][0]["Plan"]))


def quoted(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return quoted("{" + ",".join(f'"{each}"' for each in value) + "}")
    return "'" + str(value).replace("'", "''") + "'"


def offences(found: list[Node], *, bounded: bool = True) -> list[str]:
    """Where a large table is read other than through an index, or through the whole of one."""
    said = []
    for node in found:
        if node.get("Relation Name") not in BIG or node["Node Type"] == "ModifyTable":
            continue
        if node["Node Type"] not in WALKS:
            said.append(f"{node['Part']}: {node['Node Type']} on {node['Relation Name']}")
        elif bounded and FIRST_COLUMN[node["Index Name"]] not in node.get("Index Cond", ""):
            said.append(f"{node['Part']}: the whole of {node['Index Name']}")
    return said


class Sent(Exception):
    """A statement that was about to be run."""

    def __init__(self, sql: str, params: Sequence[Any]) -> None:
        self.sql, self.params = sql, params


class Recorder:
    async def fetch(self, sql: str, *params: Any) -> Sequence[Any]:
        raise Sent(sql, params)

    def transaction(self) -> Any:
        raise AssertionError("reads need none")


def sent(reading: Coroutine[Any, Any, Any]) -> tuple[str, Sequence[Any]]:
    """The first statement of something that reads through a `Recorder`."""
    try:
        reading.send(None)
    except Sent as statement:
        return statement.sql, statement.params
    raise AssertionError("nothing was asked")
