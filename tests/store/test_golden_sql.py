"""Each form's statements equal a golden text. FF_UPDATE_GOLDEN=1 rewrites the files."""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import fields

from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution, Lane
from flowfabric.model.flow import Edge, EdgeGroup, Flow
from flowfabric.model.flow_views import FlowSummary
from flowfabric.model.lease import Grant
from flowfabric.model.quota import LimitScope, QuotaPolicy
from flowfabric.model.signing_key import HmacKey
from flowfabric.model.waitpoint import Signal, Suspension, Waitpoint
from flowfabric.model.worker import WorkerInfo
from flowfabric.plan import Form
from flowfabric.rules.limits.quotas import Slot
from flowfabric.store.schema import TABLES
from flowfabric.store.sql.pg_statement import statement
from flowfabric.store.sqlite.uri import MINIMUM_SQLITE

from .sqlite import forms

GOLDEN = Path(__file__).parent / "golden"
STORES = ("postgres", "sqlite")
UPDATE = os.environ.get("FF_UPDATE_GOLDEN") == "1"
_CLAUSE = re.compile(r"(?:SET|FROM|WHERE|ORDER BY|VALUES|ON CONFLICT|HAVING|AND) ")


def golden_text(store: str, name: str) -> str:
    form = forms.ALL[name]
    parts = [f"-- {name}({', '.join(form.args)})\n"]
    parts += [f"{sql};\n" for sql in _statements(store, form)]
    return "\n".join(parts)


def _statements(store: str, form: Form) -> list[str]:
    if store == "sqlite":
        return [_laid_out(sql) for sql in forms.statements(form)]
    *parts, answer = statement(form).sql.splitlines()
    return ["\n".join([*(_part_laid_out(part) for part in parts), _laid_out(answer)])]


def _part_laid_out(part: str) -> str:
    """`name AS (statement),` with the statement laid out inside."""
    opening, bracket, rest = part.partition("(")
    inner, closing, comma = rest.rpartition(")")
    return f"{opening}{bracket}{_laid_out(inner)}{closing}{comma}"


def _laid_out(sql: str) -> str:
    """One line per clause and per column, so that a difference is readable."""
    columns_at = 1 if sql.startswith("INSERT") else 0
    depth, text = 0, ""
    for at, letter in enumerate(sql):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        clause = depth == 0 and _CLAUSE.match(sql, at + 1)
        item = depth <= columns_at and text.endswith(",")
        text += "\n    " if letter == " " and (clause or item) else letter
    return text


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", forms.ALL)
def test_the_statements_of_a_form_are_the_golden_ones(name: str, store: str) -> None:
    path, text = GOLDEN / store / f"{name}.sql", golden_text(store, name)
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    assert path.exists(), (
        f"{store}/{path.name} is new: run FF_UPDATE_GOLDEN=1 pytest "
        f"{Path(__file__).name} and read it"
    )
    stored = path.read_text(encoding="utf-8")
    diff = "".join(
        difflib.unified_diff(stored.splitlines(True), text.splitlines(True), "golden", "now", n=2)
    )
    if diff:
        pytest.fail(f"{name} changed (FF_UPDATE_GOLDEN=1 accepts it):\n{diff}", pytrace=False)


@pytest.mark.parametrize("store", STORES)
def test_every_golden_file_has_a_form(store: str) -> None:
    left = {path.stem for path in (GOLDEN / store).glob("*.sql")} - set(forms.ALL)
    if UPDATE:
        for name in left:
            (GOLDEN / store / f"{name}.sql").unlink()
        return
    assert not left


def test_form_names_are_unique() -> None:
    counted = Counter(form.name for form in forms.declared())
    assert [name for name, n in counted.items() if n > 1] == []
    assert len(counted) > 30, "the forms were found at all"


def test_form_names_are_plain_words() -> None:
    assert [name for name in forms.ALL if not re.fullmatch(r"[a-z][a-z_]*", name)] == []


def test_every_statement_runs_on_the_oldest_sqlite_allowed() -> None:
    """HAVING without GROUP BY came with 3.39."""
    bare = [
        n
        for n, f in forms.ALL.items()
        for s in forms.statements(f)
        if " HAVING " in s and "GROUP BY" not in s
    ]
    assert not bare or MINIMUM_SQLITE >= (3, 39, 0), bare


@pytest.mark.parametrize(
    ("struct", "table"),
    [
        (Execution, "ff_exec_core"),
        (Attempt, "ff_attempt"),
        (Grant, "ff_claim_grant"),
        (WorkerInfo, "ff_worker_registry"),
        (Lane, "ff_lane_registry"),
        (Flow, "ff_flow_core"),
        (Edge, "ff_edge"),
        (EdgeGroup, "ff_edge_group"),
        (FlowSummary, "ff_flow_summary"),
        (Suspension, "ff_suspension_current"),
        (Waitpoint, "ff_waitpoint_pending"),
        (Signal, "ff_signal"),
        (HmacKey, "ff_waitpoint_hmac"),
        (QuotaPolicy, "ff_quota_policy"),
        (LimitScope, "ff_limit_scope"),
        (Slot, "ff_quota_admitted"),
    ],
)
def test_a_struct_has_exactly_the_columns_of_its_table_in_order(
    struct: type[Struct], table: str
) -> None:
    assert tuple(field.name for field in fields(struct)) == TABLES[table].names
