"""`flowfabric admin partition-collisions`."""

from __future__ import annotations

import re

import pytest

from flowfabric.cli.collisions import collisions, report, severity
from flowfabric.ids import ExecutionId
from tests.cli.commands import flowfabric

COMMAND = ["admin", "partition-collisions"]


def together(wanted: int) -> list[str]:
    """So many lanes of one partition, and one that is alone."""
    by_partition: dict[int, list[str]] = {}
    for number in range(10_000):
        lane = f"lane-{number}"
        same = by_partition.setdefault(ExecutionId.solo(lane).partition_index, [])
        same.append(lane)
        if len(same) == wanted:
            other = next(names[0] for names in by_partition.values() if names is not same)
            return [*same, other]
    raise AssertionError


def test_lanes_of_one_partition_are_named_together() -> None:
    first, second, third, alone = together(3)
    rows = {lane: (at, others) for at, lane, others in collisions([alone, third, second, first])}
    assert rows[alone][1] == []
    assert {rows[lane][0] for lane in (first, second, third)} == {
        ExecutionId.solo(first).partition_index
    }
    assert rows[first][1] == sorted([second, third])
    assert collisions(["b", "a"]) == sorted(collisions(["a", "b"]))


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "Clean"),
        (0.01, "Watch"),
        (0.0499, "Watch"),
        (0.05, "Elevated"),
        (0.15, "Elevated"),
        (0.1501, "Remediate"),
    ],
)
def test_the_severity_follows_the_share(share: float, said: str) -> None:
    assert severity(share) == said


def test_the_report_is_printed_and_is_no_failure() -> None:
    first, second, alone = together(2)
    done = flowfabric(*COMMAND, FF_LANES=f" {first},{second}, {alone} ")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[1] == "" and lines[2:6] == [
        "num_flow_partitions: 256",
        "lanes configured:    3",
        "lanes colliding:     2 (66.7%)",
        "severity:            Remediate",
    ]
    assert lines[7] == f"partition | {'lane':<16} | collides_with"
    assert sum(re.match(r"  \d\. ", line) is not None for line in lines) == 3
    assert f"| {alone:<16} | \N{EM DASH}" in done.stdout


def test_no_collisions_give_no_advice() -> None:
    assert "severity:            Clean" in report(["default"]) and len(report(["default"])) == 9
    assert flowfabric(*COMMAND, FF_LANES="").returncode == 2


@pytest.mark.parametrize("lanes", ["a,a", ",", "\u00e9", "x" * 65])
def test_lanes_that_are_none_are_refused(lanes: str) -> None:
    done = flowfabric(*COMMAND, FF_LANES=lanes)
    assert done.returncode == 2
    assert flowfabric("admin", "nonsense").returncode == 2
