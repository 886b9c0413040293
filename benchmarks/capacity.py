"""`python -m benchmarks capacity --rate 100000 --steps 5`: how many servers, processes and disks a
load takes, computed from the measured costs of each operation.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from math import ceil
from pathlib import Path

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks.costs import Cost, Costs, load

NAME = "capacity"
DAY_S = 86_400
CREATE = "create, 100 at once"
LONGEST_RENEWALS = 3
"""A lease is renewed so often in its length."""
BEGIN, END = "<!-- {} -->", "<!-- end of {} -->"


class Load(Struct, frozen=True):
    """Executions a second, and what each of them does."""

    rate: float
    steps: float = 0
    frames: float = 0
    signals: float = 0
    edges: float = 0
    seconds: float = 0
    lease_s: float = 30
    days: float = 1


class Server(Struct, frozen=True):
    """What one Postgres server is given, and how much of it is used."""

    cores: float = 32
    wal_mb_s: float = 300
    statements_s: float = 50_000
    used: float = 0.7


class Demand(Struct, frozen=True):
    """What a load takes a second of everything there is."""

    statements: float
    server_cores: float
    client_cores: float
    wal_mb_s: float
    wal_checkpoint_mb_s: float
    disk_gb_day: float

    def servers(self, server: Server) -> dict[str, float]:
        """How many servers each resource alone asks for."""
        return {
            "processor": self.server_cores / (server.cores * server.used),
            "WAL": self.wal_mb_s / (server.wal_mb_s * server.used),
            "statements": self.statements / (server.statements_s * server.used),
        }


def operations(wanted: Load) -> dict[str, float]:
    """How often an execution does each operation. What waits for signals is claimed again."""
    turns = 1 + wanted.signals
    return {
        (CREATE if not wanted.edges else "flow member"): 1,
        "complete and claim": 1,
        "claim": turns - 1,
        "step": wanted.steps,
        "frame": wanted.frames,
        "suspend": wanted.signals,
        "signal": wanted.signals,
        "edge": wanted.edges,
        "renew": int(wanted.seconds / (wanted.lease_s / LONGEST_RENEWALS)),
    }


def demand(wanted: Load, costs: Costs) -> Demand:
    each = operations(wanted)

    def total(name: str) -> float:
        spent = (count * getattr(costs.operations[op], name) for op, count in each.items())
        return float(sum(spent))

    rate = wanted.rate
    return Demand(
        statements=rate * total("statements"),
        server_cores=rate * total("server_us") / 1e6,
        client_cores=rate * total("client_us") / 1e6,
        wal_mb_s=rate * total("wal") / 1e6,
        wal_checkpoint_mb_s=rate * total("wal_first") / 1e6,
        disk_gb_day=rate * total("disk") * DAY_S / 1e9,
    )


def ceiling(wanted: Load, server: Server, costs: Costs) -> tuple[float, str]:
    """The rate at which one server is full, and of what."""
    asked = demand(wanted, costs).servers(server)
    tightest = max(asked, key=lambda name: asked[name])
    return wanted.rate / asked[tightest], tightest


def plan(wanted: Load, server: Server, costs: Costs) -> list[tuple[str, str]]:
    needed = demand(wanted, costs)
    most, tightest = ceiling(wanted, server, costs)
    cells = ceil(wanted.rate / most)
    return [
        ("executions a second", f"{wanted.rate:,.0f}"),
        ("servers, one cell each", f"{cells:,}, full of {tightest}"),
        ("one server is full at", f"{most:,.0f} executions a second"),
        (
            "statements a second",
            f"{needed.statements:,.0f}, {needed.statements / cells:,.0f} a server",
        ),
        ("processors of servers", f"{needed.server_cores:,.1f}"),
        ("worker and client processes", f"{ceil(needed.client_cores / server.used):,}"),
        (
            "WAL",
            f"{needed.wal_mb_s:,.0f} MB/s, "
            f"right after a checkpoint {needed.wal_checkpoint_mb_s:,.0f}",
        ),
        ("WAL a day, when archived", f"{needed.wal_mb_s * DAY_S / 1e6:,.2f} TB"),
        ("rows a day", f"{needed.disk_gb_day:,.0f} GB"),
        (
            f"rows kept for {wanted.days:g} days",
            f"{needed.disk_gb_day * wanted.days:,.0f} GB, "
            f"{needed.disk_gb_day * wanted.days / cells:,.0f} a server",
        ),
    ]


def markdown(costs: Costs) -> str:
    """The table of costs."""
    lines = [
        f"Measured by `{costs.command}` on {costs.machine}, Postgres {costs.version}.",
        "",
        "| operation | statements | WAL bytes | after a checkpoint | disk bytes | server us "
        "| client us |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [f"| {name} | {_cells(cost)} |" for name, cost in costs.operations.items()]
    return "\n".join(lines)


def _cells(cost: Cost) -> str:
    sizes = (cost.wal, cost.wal_first, cost.disk, cost.server_us, cost.client_us)
    return " | ".join([f"{cost.statements:.2f}", *(f"{size:,.0f}" for size in sizes)])


EXAMPLES = (
    ("1,000 a second, no steps", Load(1_000)),
    ("10,000 a second, no steps", Load(10_000)),
    ("10,000 a second, 5 steps", Load(10_000, steps=5)),
    ("100,000 a second, 5 steps", Load(100_000, steps=5)),
    ("1,000 a second, 1 signal, 20 frames", Load(1_000, signals=1, frames=20)),
)


def examples(server: Server, costs: Costs) -> str:
    lines = [
        f"A server of {server.cores:g} processors, {server.wal_mb_s:g} MB/s of WAL and "
        f"{server.statements_s:,.0f} statements a second, used to {server.used:.0%}.",
        "",
        "| load | one server is full at | of | servers | processes | WAL MB/s | rows a day |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, wanted in EXAMPLES:
        most, tightest = ceiling(wanted, server, costs)
        needed = demand(wanted, costs)
        lines.append(
            f"| {name} | {most:,.0f} a second | {tightest} | {ceil(wanted.rate / most)} | "
            f"{ceil(needed.client_cores / server.used)} | {needed.wal_mb_s:,.0f} | "
            f"{needed.disk_gb_day:,.0f} GB |"
        )
    return "\n".join(lines)


def written(text: str, blocks: dict[str, str]) -> str:
    """The document with what stands between the marks of each block replaced."""
    for name, block in blocks.items():
        begin, end = BEGIN.format(name), END.format(name)
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"the document has no block between {begin} and {end}")
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{block}\n{end}{rest.partition(end)[2]}"
    return text


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        f"python -m benchmarks {NAME}", description="What a load takes, by the measured costs."
    )
    made.add_argument("--rate", type=float, default=10_000, help="executions a second")
    for name, help in (
        ("steps", "steps of each"),
        ("frames", "frames each writes"),
        ("signals", "signals each waits for"),
        ("edges", "edges of a flow for each member"),
        ("seconds", "how long each runs; longer than a third of its lease, it renews"),
    ):
        made.add_argument(f"--{name}", type=float, default=0, help=help)
    made.add_argument("--days", type=float, default=1, help="how long ended executions are kept")
    made.add_argument("--cores", type=float, default=Server().cores, help="of one server")
    made.add_argument("--wal", type=float, default=Server().wal_mb_s, help="MB/s one server writes")
    made.add_argument("--write", type=Path, help="the document whose tables are replaced")
    return made


def main(words: Sequence[str]) -> None:
    args, costs = parser().parse_args(words), load()
    server = Server(cores=args.cores, wal_mb_s=args.wal)
    if args.write is not None:
        blocks = {"costs": markdown(costs), "examples": examples(server, costs)}
        args.write.write_text(written(args.write.read_text(), blocks))
        return
    wanted = Load(
        args.rate,
        args.steps,
        args.frames,
        args.signals,
        args.edges,
        args.seconds,
        days=args.days,
    )
    table = Table(show_header=False)
    for name, value in plan(wanted, server, costs):
        table.add_row(name, value)
    Console(width=120).print(table)
    print(f"costs: {costs.command}; {costs.machine}, Postgres {costs.version}")
