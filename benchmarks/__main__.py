"""`python -m benchmarks SCENARIO [--store S] [--n N] [--workers W] [--json]`"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable

from benchmarks import backlog_growth, idle, memory_use, submit_claim_complete
from benchmarks.report import Measured, show

Scenario = Callable[[str, int, int], Awaitable[list[Measured]]]
SCENARIOS: dict[str, tuple[Scenario, int]] = {
    submit_claim_complete.NAME: (submit_claim_complete.run, 10_000),
    backlog_growth.NAME: (backlog_growth.run, 200_000),
    idle.NAME: (idle.run, 20),
    memory_use.NAME: (memory_use.run, 100_000),
}


async def _measure(scenario: Scenario, store: str, n: int, workers: int) -> list[Measured]:
    return await scenario(store, n, workers)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure FlowFabric on this machine.")
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("--store", choices=("sqlite", "postgres", "memory"), default="sqlite")
    parser.add_argument("--n", type=int, help="how many executions (each scenario has its own default)")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--json", action="store_true", help="one JSON object per measured system and line")
    args = parser.parse_args()
    scenario, default = SCENARIOS[args.scenario]
    show(asyncio.run(_measure(scenario, args.store, args.n or default, args.workers)), as_json=args.json)


if __name__ == "__main__":
    main()
