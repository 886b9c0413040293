"""The phases of an erasure, and the tables that have rows of namespaces."""

from __future__ import annotations

import pytest

from flowfabric.rules.bulk import erasure
from flowfabric.rules.bulk.erasure import Progress
from flowfabric.store.schema import INDEXES, TABLES


@pytest.mark.parametrize(
    ("cursor", "progress"),
    [
        (None, Progress("cancel")),
        ("cancel:1.ab", Progress("cancel", "1.ab")),
        ("delete", Progress("delete")),
        ("rows:[3,1]", Progress("rows", "[3,1]")),
    ],
)
def test_a_cursor_names_the_phase_and_the_position(cursor: str | None, progress: Progress) -> None:
    assert erasure.progress_of(cursor) == progress


@pytest.mark.parametrize(
    ("phase", "position", "cursor"),
    [
        ("cancel", "1.ab", "cancel:1.ab"),
        ("cancel", None, "delete"),
        ("delete", None, "rows"),
        ("rows", "[3]", "rows:[3]"),
        ("rows", None, None),
    ],
)
def test_a_phase_leads_to_the_next(phase: str, position: str | None, cursor: str | None) -> None:
    assert erasure.cursor_of(phase, position) == cursor


def test_every_table_with_a_namespace_is_erased() -> None:
    """The rows of executions, with their events, are deleted with the executions."""
    owned = {"ff_exec_core", *(child.table for child in TABLES["ff_exec_core"].children)}
    named = {table.name for table in TABLES.values() if "namespace" in table.names} - owned
    assert {erased.table for erased in erasure.TABLES} == named


@pytest.mark.parametrize("erased", erasure.TABLES, ids=lambda erased: erased.table)
def test_an_erased_row_is_named_by_its_key_and_its_namespace(erased: erasure.Erased) -> None:
    index = INDEXES[erased.index]
    assert (index.table, index.order, index.group) == (erased.table, erased.by, ())
    assert erased.key == TABLES[erased.table].key
    values = [f"v-{column}" for column in erased.columns]
    (plan,) = erasure.erase(erased, "ann", [values])
    given = dict(zip(plan.form.args, plan.values, strict=True))
    assert given == {**{c: f"v-{c}" for c in erased.key}, "namespace": "ann"}
