"""The panels of `flowfabric top` as text."""

from __future__ import annotations

from uuid import UUID

import pytest

from flowfabric.cli.top import rows
from flowfabric.cli.top.model import LaneRow, Overview, Rates, RunRow, StuckRow, WorkerRow
from flowfabric.cli.top.once import to_json
from flowfabric.cli.top.rows import Kind, Panel
from flowfabric.ids import ExecutionId
from flowfabric.model.deployment import BudgetUse, OverdueTimers

IDENT = ExecutionId.of(3, UUID("7d700d07-a49a-4346-aa9f-6c225fae706e"))
NASTY = "a\x1b[31m\nb\u202e"


def overview(**parts: object) -> Overview:
    empty: dict[str, object] = {
        "as_of": 1_800_000_000_000,
        "took_ms": 3,
        "namespace": None,
        "rates": Rates(),
        "history": (),
        "states": {},
        **dict.fromkeys(("lanes", "runs", "failing", "workers", "stuck", "budgets", "timers"), ()),
    }
    return Overview(**(empty | parts))


def texts(panel: Panel) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in panel.rows]


def test_every_row_has_a_cell_for_every_column() -> None:
    found = overview(
        lanes=(LaneRow("mail", "paused", 1_200, 3, 0, 0, 0, 90_000),),
        runs=(RunRow(IDENT, "t", "l", "w", 1_500, -500, 2, 40, "row 4"),),
        workers=(WorkerRow("w-1", "w", "default", ("a", "b"), 3, {"t": 2, "u": 1}, 4_000),),
        stuck=(StuckRow(IDENT, "t", "l", "waiting", 60_000, "lane_paused", "is paused", ""),),
        budgets=(BudgetUse(UUID(int=1), "llm", "usd", 9, 10, False, 1_800_000_060_000),),
        timers=(OverdueTimers("lease", 2, 6_000),),
    )
    panels = rows.panels(found)
    for panel in panels.values():
        assert all(len(row.cells) == len(panel.columns) for row in panel.rows)
    assert texts(panels["lanes"]) == [["mail", "paused", "1,200", "1 min 30 s", "3", "-", "-", "-"]]
    uuid = "7d700d07-a49a-4346-aa9f-6c225fae706e"
    assert texts(panels["running"]) == [
        ["t", "l", "w", "1.5 s", "over by 500 ms", "2", "40% row 4", uuid]
    ]
    assert texts(panels["workers"]) == [["w-1", "a, b", "3", "t 2, u 1", "4.0 s ago"]]
    assert texts(panels["stuck"]) == [["t", "l", "1 min", "is paused", uuid]]
    assert texts(panels["budgets"]) == [["llm", "usd", "9", "10 soft", "█████████░  90%", "1 min"]]
    assert texts(panels["timers"]) == [["lease", "2", "6.0 s"]]
    assert [row.target.kind for row in panels["running"].rows] == [Kind.RUN]


def test_names_cannot_control_the_terminal() -> None:
    found = overview(
        lanes=(LaneRow(NASTY, "active", 1, 0, 0, 0, 0, 0),),
        runs=(RunRow(IDENT, NASTY, NASTY, NASTY, None, None, 1, None, NASTY),),
        workers=(WorkerRow(NASTY, NASTY, NASTY, (NASTY,), 1, {NASTY: 1}, 0),),
        stuck=(StuckRow(IDENT, NASTY, NASTY, "waiting", 1, "x", NASTY, NASTY),),
        budgets=(BudgetUse(UUID(int=1), NASTY, NASTY, 1, 2, True, None),),
    )
    shown = [cell for panel in rows.panels(found).values() for row in texts(panel) for cell in row]
    assert all(cell.isprintable() for cell in shown)
    assert sum("a\ufffd[31m" in cell for cell in shown) == 13


def test_a_filter_keeps_the_rows_that_contain_the_text() -> None:
    found = overview(
        lanes=tuple(LaneRow(name, "active", 0, 0, 0, 0, 0, 0) for name in ("Mail", "export"))
    )
    panel = rows.panels(found)["lanes"]
    assert [row[0] for row in texts(rows.filtered(panel, "mail"))] == ["Mail"]
    assert len(rows.filtered(panel, "").rows) == 2
    assert rows.filtered(panel, "none").rows == ()


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([], ""),
        ([0.0, 0.0], "  "),
        ([0.0, 0.001, 4.0, 8.0], " ▁▄█"),
        ([1.0, 2.0, 3.0, 4.0, 5.0], "▅▆█"),
    ],
)
def test_a_sparkline_shows_the_last_values(values: list[float], shown: str) -> None:
    assert rows.sparkline(values, 3 if len(values) == 5 else 30) == shown


def test_a_sampled_rate_says_so() -> None:
    cells = rows.rate_cells(Rates(1.0, {"completed": 2.0, "other": 0.0}, is_sampled=True))
    assert {name: cell.text for name, cell in cells.items()} == {
        "created": "1.0/s",
        "completed": "~2.0/s",
    }


def test_json_has_plain_values() -> None:
    run = RunRow(IDENT, "t", "l", "w", 1, 2, 1, None, "")
    made = to_json(overview(runs=(run,)))
    assert made["runs"][0]["execution_id"] == str(IDENT)
    assert "history" not in made
