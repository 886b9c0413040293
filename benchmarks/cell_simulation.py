"""`python -m benchmarks cell-simulation`: a thousand tenants with a cell each on a few
servers, one of which is lost, on a virtual clock, by the measured cost of an execution.

A server is a queue: work that arrives waits until the work before it is done. Arrivals are random
with a fixed seed, so a run gives the same figures each time.
"""

from __future__ import annotations

import argparse
from bisect import insort
from collections.abc import Iterable, Sequence
from math import exp, sqrt
from pathlib import Path
from random import Random

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks.capacity import written
from benchmarks.costs import load

NAME = "cell-simulation"
SLOTS = 16_384
TICK_S = 0.01
MANY = 30
"""From this mean on a normal distribution stands in for that of Poisson."""
SEED = 1


class Tenants(Struct, frozen=True):
    """Tenant k has a share of the load in proportion to k to the power of minus `skew`."""

    count: int = 1_000
    skew: float = 1.0

    def shares(self) -> list[float]:
        weights = [rank**-self.skew for rank in range(1, self.count + 1)]
        whole = sum(weights)
        return [weight / whole for weight in weights]


class Fleet(Struct, frozen=True):
    """`each_us` is the processor time that one execution takes of a server, over all its steps."""

    servers: int
    each_us: float
    cores: float = 1
    balanced: bool = False
    """Cells are placed by their load, the largest first, and not by the hash of their name."""

    def seconds(self, executions: float) -> float:
        return executions * self.each_us / 1e6 / self.cores


class Loss(Struct, frozen=True):
    """The server that has the most work is lost `at_s`, and its replica answers after `down_s`."""

    at_s: float = 60
    down_s: float = 6


class Waits:
    """How long arrivals wait, with their numbers."""

    def __init__(self) -> None:
        self._found: list[tuple[float, int]] = []
        self._count = 0

    def add(self, wait_s: float, arrivals: int) -> None:
        if arrivals:
            self._found.append((wait_s, arrivals))
            self._count += arrivals

    def quantile(self, q: float) -> float:
        left = q * self._count
        for wait_s, arrivals in sorted(self._found):
            left -= arrivals
            if left <= 0:
                return wait_s
        return 0.0


class Outcome(Struct, frozen=True):
    """Of one server."""

    cells: int
    share: float
    used: float
    before: Waits
    after: Waits
    """Waits until the loss, and from then on."""
    recovered_s: float
    """From the loss until its backlog is gone; infinite if it is not gone at the end."""


def slot(cell: str) -> int:
    """The slot of a hash tag in a cluster of Valkey."""
    crc = 0
    for byte in cell.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
        crc &= 0xFFFF
    return crc % SLOTS


def placed(shares: Sequence[float], fleet: Fleet) -> list[list[float]]:
    """The shares of the cells on each server."""
    homes: list[list[float]] = [[] for _ in range(fleet.servers)]
    if not fleet.balanced:
        for number, share in enumerate(shares):
            homes[slot(f"tenant-{number}") * fleet.servers // SLOTS].append(share)
        return homes
    filled = [(0.0, number) for number in range(fleet.servers)]
    for share in sorted(shares, reverse=True):
        load_of, number = filled.pop(0)
        homes[number].append(share)
        insort(filled, (load_of + share, number))
    return homes


def simulate(
    tenants: Tenants, fleet: Fleet, rate: float, seconds: float, loss: Loss, seed: int = SEED
) -> list[Outcome]:
    """The busiest server comes first; it is the one that is lost."""
    homes = sorted(placed(tenants.shares(), fleet), key=sum, reverse=True)
    return [
        _served(
            cells, fleet, rate, seconds, loss if number == 0 else None, loss.at_s, seed + number
        )
        for number, cells in enumerate(homes)
    ]


def _served(
    cells: Sequence[float],
    fleet: Fleet,
    rate: float,
    seconds: float,
    loss: Loss | None,
    at_s: float,
    seed: int,
) -> Outcome:
    random, share = Random(seed), sum(cells)
    mean = rate * share * TICK_S
    before, after = Waits(), Waits()
    backlog_s, recovered_s = 0.0, 0.0
    for tick in range(round(seconds / TICK_S)):
        now_s = tick * TICK_S
        arrivals = poisson(random, mean)
        down_s = 0.0
        if loss is not None and loss.at_s <= now_s < loss.at_s + loss.down_s:
            down_s = loss.at_s + loss.down_s - now_s
        into = before if now_s < at_s else after
        into.add(down_s + backlog_s + fleet.seconds(arrivals) / 2, arrivals)
        backlog_s += fleet.seconds(arrivals)
        if not down_s:
            backlog_s = max(0.0, backlog_s - TICK_S)
        if backlog_s > TICK_S and now_s >= at_s:
            recovered_s = now_s + TICK_S - at_s
    if backlog_s > TICK_S:
        recovered_s = float("inf")
    used = fleet.seconds(rate * share)
    return Outcome(len(cells), share, used, before, after, recovered_s)


def poisson(random: Random, mean: float) -> int:
    if mean > MANY:
        return max(0, round(random.gauss(mean, sqrt(mean))))
    bound, drawn, product = exp(-mean), 0, random.random()
    while product > bound:
        drawn, product = drawn + 1, product * random.random()
    return drawn


# ---- the document


class Case(Struct, frozen=True):
    name: str
    tenants: Tenants
    used: float
    """Of all servers together."""
    balanced: bool = False


CASES = (
    Case("all tenants alike", Tenants(skew=0), 0.5),
    Case("skewed", Tenants(), 0.3),
    Case("skewed", Tenants(), 0.5),
    Case("skewed, cells placed by load", Tenants(), 0.5, balanced=True),
    Case("skewed, cells placed by load", Tenants(), 0.7, balanced=True),
    Case("a mild skew, cells placed by load", Tenants(skew=0.7), 0.7, balanced=True),
)


def case_line(case: Case, fleet: Fleet, seconds: float, loss: Loss) -> str:
    fleet = Fleet(fleet.servers, fleet.each_us, fleet.cores, case.balanced)
    rate = case.used * fleet.servers * fleet.cores * 1e6 / fleet.each_us
    lost, *others = simulate(case.tenants, fleet, rate, seconds, loss)
    middle = others[len(others) // 2]
    words = [
        case.name,
        f"{rate:,.0f}",
        f"{max(case.tenants.shares()):.1%}",
        f"{lost.used:.0%}, {middle.used:.0%}, {others[-1].used:.0%}",
        f"{_ms(lost.before.quantile(0.99))}, {_ms(middle.before.quantile(0.99))}",
        f"{lost.cells:,}",
        f"{lost.after.quantile(1):.1f} s" if lost.used < 1 else "grows",
        f"{lost.recovered_s:.1f} s" if lost.recovered_s < seconds else "never",
        f"{_ms(_worst(others, 0.99))}",
    ]
    return "| " + " | ".join(words) + " |"


def _worst(outcomes: Iterable[Outcome], q: float) -> float:
    return max(outcome.after.quantile(q) for outcome in outcomes)


def _ms(seconds: float) -> str:
    return f"{seconds * 1_000:,.1f} ms" if seconds < 1 else f"{seconds:,.1f} s"


def markdown(fleet: Fleet, seconds: float, loss: Loss, source: str) -> str:
    lines = [
        f"{fleet.servers} servers; an execution takes {fleet.each_us:.0f} us of one "
        f"({source}); {seconds:.0f} s, the busiest server is lost after {loss.at_s:.0f} s and "
        f"its replica answers {loss.down_s:g} s later.",
        "",
        "| load | executions a second | largest tenant | used: busiest, middle, idlest server "
        "| p99 of the wait there: busiest, middle | cells lost with it | longest wait of theirs "
        "| backlog gone after | p99 of all others from the loss on |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(case_line(case, fleet, seconds, loss) for case in CASES)])


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        f"python -m benchmarks {NAME}", description="Tenants on servers, one of which is lost."
    )
    made.add_argument("--cells", type=int, default=1_000)
    made.add_argument("--skew", type=float, default=1.0, help="0: all tenants alike")
    made.add_argument("--servers", type=int, default=10)
    made.add_argument("--rate", type=float, default=20_000, help="executions a second")
    made.add_argument("--cores", type=float, default=1, help="of a server; Valkey uses one")
    made.add_argument("--each-us", type=float, help="of a server, for one execution")
    made.add_argument("--seconds", type=float, default=120)
    made.add_argument("--down", type=float, default=Loss().down_s, help="seconds to promote")
    made.add_argument("--balanced", action="store_true", help="cells are placed by load")
    made.add_argument("--write", type=Path, help="the document whose table is replaced")
    return made


def main(words: Sequence[str]) -> None:
    args = parser().parse_args(words)
    measured, source = cost_of_an_execution()
    fleet = Fleet(args.servers, args.each_us or measured, args.cores, args.balanced)
    loss = Loss(args.seconds / 2, args.down)
    if args.write is not None:
        source = "as given" if args.each_us else source
        block = markdown(fleet, args.seconds, loss, source)
        args.write.write_text(written(args.write.read_text(), {"cells": block}))
        return
    found = simulate(Tenants(args.cells, args.skew), fleet, args.rate, args.seconds, loss)
    table = Table(
        "server", "cells", "share", "used", "p50", "p99", "p99 from the loss on", "recovered"
    )
    for number, each in enumerate(found):
        table.add_row(
            "lost" if number == 0 else str(number),
            f"{each.cells:,}",
            f"{each.share:.1%}",
            f"{each.used:.0%}",
            _ms(each.before.quantile(0.5)),
            _ms(each.before.quantile(0.99)),
            _ms(each.after.quantile(0.99)),
            f"{each.recovered_s:.1f} s" if number == 0 else "",
        )
    Console(width=120).print(table)


def cost_of_an_execution() -> tuple[float, str]:
    costs = load()
    names = ("create, 100 at once", "complete and claim")
    return sum(costs.operations[name].server_us for name in names), costs.command
