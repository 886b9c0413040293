"""Figures appear in the column of their store or system."""

from __future__ import annotations

from benchmarks.report import Measured

from benchmarks import speed_page


def measured(scenario: str, store: str, system: str, **figures: float) -> Measured:
    return Measured(scenario=scenario, store=store, system=system, n=1, **figures)


def test_a_figure_of_valkey_is_in_its_column() -> None:
    results = speed_page.Results()
    results.add("steps", "valkey", [measured("steps", "valkey", "flowfabric, 5 us", ops_per_s=512)])
    lines = list(speed_page.page(results, 1))
    (row,) = (line for line in lines if "benchmarks steps`" in line)
    assert row.endswith("| - | - | 512 /s |")


def test_a_peer_on_valkey_is_in_its_column() -> None:
    results = speed_page.Results()
    systems = ("flowfabric (a)", "celery (b)", "dramatiq (c)", "arq (d)", "saq (e)", "raw (f)")
    found = [
        measured("peers/drain", "valkey", system, ops_per_s=100.0 + at)
        for at, system in enumerate(systems)
    ]
    results.add("peers --workload drain", "valkey", found)
    lines = list(speed_page.page(results, 1))
    (row,) = (line for line in lines if "--workload drain --store valkey" in line)
    assert row.endswith("| 100 /s | 101 /s | 102 /s | 103 /s | 104 /s | 105 /s |")


def test_the_memory_of_an_execution_is_in_bytes() -> None:
    results = speed_page.Results()
    weight = measured(
        "bytes-per-execution/suspended",
        "valkey",
        "flowfabric, payload of 1,024 bytes",
        memory_bytes=6_611.0,
    )
    results.add("bytes-per-execution", "valkey", [weight])
    text = "\n".join(speed_page.page(results, 1))
    assert (
        "| suspended at a waitpoint, payload of 1,024 bytes "
        "| `python -m benchmarks bytes-per-execution --store valkey` | 6,611 B |" in text
    )
    assert text.count("6,611") == 1


def test_every_command_names_a_scenario_and_a_store_once() -> None:
    commands = speed_page.commands()
    assert len(set(commands)) == len(commands)
    assert {("peers --workload latency", "valkey"), ("wal", "postgres")} <= set(commands)
    assert ("wal", "valkey") not in commands
