"""Capacity is what the costs of the operations of a load sum up to."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.capacity import (
    CREATE,
    Load,
    Server,
    ceiling,
    demand,
    examples,
    main,
    markdown,
    operations,
    plan,
    written,
)
from benchmarks.costs import Cost, Costs, load
from msgspec import structs

DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"
ONE = Cost(statements=0.1, wal_first=2_000, wal=1_000, disk=500, server_us=100, client_us=50)
NAMES = (
    CREATE,
    "complete and claim",
    "claim",
    "renew",
    "step",
    "frame",
    "suspend",
    "signal",
    "flow member",
    "edge",
)
EQUAL = Costs("c", "m", "18", dict.fromkeys(NAMES, ONE))


def test_a_load_takes_what_its_operations_take() -> None:
    needed = demand(Load(1_000, steps=3), EQUAL)
    assert needed.server_cores == pytest.approx(0.5)
    assert needed.client_cores == pytest.approx(0.25)
    assert needed.wal_mb_s == pytest.approx(5.0)
    assert needed.wal_checkpoint_mb_s == pytest.approx(10.0)
    assert needed.statements == pytest.approx(500)
    assert needed.disk_gb_day == pytest.approx(2.5 * 86.4)


def test_waits_are_claimed_again_and_long_runs_renew() -> None:
    found = operations(Load(1, signals=2, seconds=60, lease_s=30))
    assert (found["claim"], found["suspend"], found["signal"], found["renew"]) == (2, 2, 2, 6)
    assert operations(Load(1, seconds=9))["renew"] == 0
    assert "flow member" in operations(Load(1, edges=2)) and CREATE in operations(Load(1))


def test_the_scarcest_resource_is_the_ceiling() -> None:
    load = Load(1_000, steps=3)
    assert ceiling(load, Server(cores=1, used=1), EQUAL) == (pytest.approx(2_000), "processor")
    assert ceiling(load, Server(wal_mb_s=5, used=1), EQUAL) == (pytest.approx(1_000), "WAL")
    few = Server(statements_s=250, used=1)
    assert ceiling(load, few, EQUAL) == (pytest.approx(500), "statements")


def test_what_does_not_fit_one_server_takes_more() -> None:
    shown = dict(plan(Load(10_000, steps=3), Server(cores=2, used=1), EQUAL))
    assert shown["servers, one cell each"] == "3, full of processor"


def test_every_operation_of_a_load_has_been_measured() -> None:
    everything = Load(1, steps=1, frames=1, signals=1, edges=1, seconds=60)
    measured = load().operations
    assert set(operations(everything)) | {CREATE} <= set(measured)
    for name in operations(structs.replace(everything, edges=0)):
        assert measured[name].wal > 0


def test_the_document_has_the_measured_costs() -> None:
    """After `costs`, `capacity --write docs/scale.md` brings the document up to date."""
    costs, text = load(), DOCUMENT.read_text()
    blocks = {"costs": markdown(costs), "examples": examples(Server(), costs)}
    assert written(text, blocks) == text


def test_a_document_without_the_marks_is_refused(tmp_path: Path) -> None:
    document = tmp_path / "other.md"
    document.write_text("# Other\n")
    with pytest.raises(SystemExit, match="no block between"):
        main(["--write", str(document)])


def test_the_command_prints_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--rate", "100000", "--steps", "5"])
    shown = capsys.readouterr().out
    assert "100,000" in shown and "WAL a day" in shown and load().command in shown
