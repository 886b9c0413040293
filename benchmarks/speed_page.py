"""`python -m benchmarks speed --rounds 3 --write docs/speed.md`: runs scenarios, writes the page.

Every figure is the median of the rounds, with the lowest and the highest in brackets.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from math import inf
from pathlib import Path
from statistics import median

from msgspec import Struct

from benchmarks.peers.systems import RAW, systems_of
from benchmarks.report import Measured

NAME = "speed"
STORES = {"sqlite": "SQLite", "postgres": "Postgres", "valkey": "Valkey"}
LIMIT_S = 600.0
Cell = Callable[[Measured], float | None]


class Row(Struct, frozen=True):
    """One line of a table: a command, and which of the figures that it prints.

    `scenario` and `system` are beginnings of the printed names.
    """

    what: str
    command: str
    scenario: str
    unit: str
    system: str = "flowfabric"
    stores: tuple[str, ...] = tuple(STORES)


RATE, P50, P99, SHARE, WAL, MEMORY = "/s", "ms p50", "ms p99", "of raw", "bytes", "B"
_CELLS: dict[str, Cell] = {
    RATE: lambda found: found.ops_per_s,
    P50: lambda found: found.p50_ms,
    P99: lambda found: found.p99_ms,
    SHARE: lambda found: found.ratio_to_raw,
    WAL: lambda found: found.wal_bytes,
    MEMORY: lambda found: found.memory_bytes,
}
_LIFE = "submit-claim-complete"
_WEIGHT = "bytes-per-execution"


def _weights(state: str, what: str) -> Iterator[Row]:
    for payload in ("40", "1,024"):
        system = f"flowfabric, payload of {payload} bytes"
        said = f"{what}, payload of {payload} bytes"
        yield Row(said, _WEIGHT, f"{_WEIGHT}/{state}", MEMORY, system, ("valkey",))


SECTIONS: dict[str, tuple[Row, ...]] = {
    "Executions": (
        Row("create, claim, complete; 16 workers", _LIFE, _LIFE, RATE),
        Row("the same, as a share of the bare driver writing the same rows", _LIFE, _LIFE, SHARE),
        Row("bulk create", _LIFE, f"{_LIFE}/bulk-create", RATE),
        Row("one at a time, three transactions", _LIFE, f"{_LIFE}/sequential", P50),
        Row("bulk create with keys", "keyed-creates", "keyed-creates/bulk", RATE),
    ),
    "Tasks": (
        Row("5,000 empty tasks, one worker", "sdk-drain", "sdk-drain", RATE),
        Row("durable steps, ten tasks at a time", "steps", "steps", RATE),
        Row("submit to result, idle worker", "sdk-latency", "sdk-latency", P50),
        Row("single submits over HTTP", "http-submit", "http-submit", RATE),
        Row("a worker over HTTP", "http-drain", "http-drain", RATE),
    ),
    "Flows": (
        Row("flows of ten nodes in a line", "flow-chain", "flow-chain", RATE),
        Row("one, a hundred, one again", "fan-out", "fan-out", P50),
        Row("cancel of 999 siblings", "quorum-cancel", "quorum-cancel/1000", P99),
        Row("history of 10,000 members", "flow-history", "flow-history", P50),
    ),
    "Suspension, limits, streams, events": (
        Row("suspend, signal, claim again", "suspend-resume", "suspend-resume", P50),
        Row("usage reports on one budget", "report-usage", "report-usage", RATE),
        Row("mixed capabilities", "capability-routing", "capability-routing", RATE),
        Row("stream frames by 100 attempts", "stream-append", "stream-append", RATE),
        Row("frame written to frame seen", "stream-latency", "stream-latency", P50),
        Row("events read by a subscriber", "subscribe", "subscribe", RATE),
    ),
    "Write-ahead log of one execution": (
        Row("create", "wal", "wal/create", WAL, stores=("postgres",)),
        Row("claim and complete", "wal", "wal/claim", WAL, stores=("postgres",)),
    ),
    "Memory of one execution on the server": (
        *_weights("waiting", "waiting"),
        *_weights("active", "claimed"),
        *_weights("suspended", "suspended at a waitpoint"),
        *_weights("ended", "completed, the result as large as the payload"),
    ),
}
PEERS = {
    "drain of 5,000 jobs by one process": ("peers --workload drain", "peers/drain", RATE),
    "enqueue to result across processes": ("peers --workload latency", "peers/latency", P50),
    "bulk enqueue": ("enqueue", "enqueue/bulk", RATE),
    "enqueue one by one": ("enqueue", "enqueue/one-by-one", RATE),
}
PEER_STORES = ("postgres", "valkey")
_DRIVERS = {"postgres": "asyncpg", "valkey": "valkey-glide"}


_INTRODUCTION = """\
Measured on {cores} shared cores of a virtual machine with Python {python}, SQLite {sqlite}
(`synchronous=FULL`), Postgres from a wheel with default durable settings, and Valkey from a wheel
with an append file that is written every second. Each figure is the median of at most {rounds}
runs, with the lowest and the highest in brackets if there are several. A command that takes longer
than {limit:.0f} s has no figure. The machine's own speed varies by a factor of two over a day, so
compare the figures of one row, and run the commands on yours. This page is written by
`python -m benchmarks speed --rounds {rounds} --write docs/speed.md`.
"""


class Results:
    """What each command printed, per store and round."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._found: dict[tuple[str, str], list[list[Measured]]] = {}

    def run(self, command: str, store: str) -> None:
        """One round of a command, in a process of its own. One that fails has no figure."""
        argv = [sys.executable, "-m", "benchmarks", *command.split(), "--store", store, "--json"]
        print(f"{command} --store {store}", file=sys.stderr, flush=True)
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            print(f"stopped after {self.limit_s:.0f} s", file=sys.stderr, flush=True)
            return
        if done.returncode != 0:
            print(done.stderr[-2_000:], file=sys.stderr, flush=True)
            return
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        self.add(command, store, [Measured(**json.loads(line)) for line in lines])

    def add(self, command: str, store: str, rows: list[Measured]) -> None:
        self._found.setdefault((command, store), []).append(rows)

    def values(self, row: Row, store: str) -> list[float]:
        """One figure per round, of the first line that fits."""
        figure = _CELLS[row.unit]
        found = []
        for rows in self._found.get((row.command, store), []):
            named = (
                each
                for each in rows
                if _begins(each.scenario, row.scenario) and _begins(each.system, row.system)
            )
            value = next((v for v in map(figure, named) if v is not None), None)
            if value is not None:
                found.append(value)
        return found


def _begins(name: str, wanted: str) -> bool:
    """`a` begins `a`, `a, b` and `a (b)`, and not `a/b`."""
    return name == wanted or name.startswith((f"{wanted},", f"{wanted} ", f"{wanted}:"))


def cell(values: Sequence[float], unit: str) -> str:
    if not values:
        return "-"
    low, middle, high = min(values), median(values), max(values)
    spread = f" ({_shown(low)} to {_shown(high)})" if len(values) > 1 else ""
    return f"{_shown(middle)}{spread} {unit}"


def _shown(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def commands() -> list[tuple[str, str]]:
    """Each command and store once."""
    rows = [
        (row.command, store) for group in SECTIONS.values() for row in group for store in row.stores
    ]
    peers = product((command for command, _, _ in PEERS.values()), PEER_STORES)
    return list(dict.fromkeys([*peers, *rows]))


def page(results: Results, rounds: int) -> Iterator[str]:
    yield "# Speed\n"
    yield _INTRODUCTION.format(
        cores=os.cpu_count(),
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        rounds=rounds,
        limit=results.limit_s,
    )
    for title, rows in SECTIONS.items():
        yield f"## {title}\n"
        stores = [store for store in STORES if any(store in row.stores for row in rows)]
        yield _head(STORES[store] for store in stores)
        for row in rows:
            cells = " | ".join(cell(results.values(row, store), row.unit) for store in stores)
            only = "" if len(stores) > 1 else f" --store {stores[0]}"
            yield f"| {row.what} | `python -m benchmarks {row.command}{only}` | {cells} |"
        yield ""
    for store in PEER_STORES:
        yield from _peers(results, store)


def _head(columns: Iterable[str]) -> str:
    names = list(columns)
    return f"| what | command | {' | '.join(names)} |\n|---|---|{'---|' * len(names)}"


def _peers(results: Results, store: str) -> Iterator[str]:
    yield f"## Beside other systems on {STORES[store]}\n"
    yield (
        "Each system runs in processes of its own, in turns on the same server, with the settings\n"
        f"that it recommends. `bare` is a loop over {_DRIVERS[store]}.\n"
    )
    yield _head(name.replace(RAW, "bare") for name in systems_of(store))
    for what, (command, scenario, unit) in PEERS.items():
        cells = " | ".join(
            cell(results.values(Row(what, command, scenario, unit, system), store), unit)
            for system in systems_of(store)
        )
        yield f"| {what} | `python -m benchmarks {command} --store {store}` | {cells} |"
    yield ""


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks speed", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, help="the page; printed unless told")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds of one command")
    parser.add_argument("--minutes", type=float, default=inf, help="then no command begins")
    args = parser.parse_args(argv)
    results, until = Results(args.limit), time.monotonic() + 60 * args.minutes
    for command, store in commands() * args.rounds:
        if time.monotonic() < until:
            results.run(command, store)
    text = "\n".join(page(results, args.rounds))
    if args.write:
        args.write.write_text(text)
    else:
        print(text)
