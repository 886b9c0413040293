"""`python -m benchmarks SCENARIO [--store S] [--workload W] [--n N] [--workers W] [--json]`,
and `python -m benchmarks capacity --rate R` and `cell-simulation`, which compute
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec

from benchmarks import (
    backlog_growth,
    bulk_cancel,
    bytes_per_execution,
    capabilities,
    capacity,
    cell_simulation,
    cells,
    costs,
    enqueue,
    find,
    flow_history,
    flows,
    http,
    idle,
    keyed_creates,
    limits,
    memory_use,
    processes,
    quota_claims,
    sdk,
    speed_page,
    starts,
    streams,
    submit_claim_complete,
    subscribe,
    suspension,
    sustained,
    timers,
    wal,
)
from benchmarks.peers import run as peers
from benchmarks.report import Measured, show

Scenario = Callable[[str, int, int], Awaitable[list[Measured]]]
SCENARIOS: dict[str, tuple[Scenario, int]] = {
    submit_claim_complete.NAME: (submit_claim_complete.run, 10_000),
    submit_claim_complete.TWO_CALLS: (submit_claim_complete.run_two_calls, 10_000),
    backlog_growth.NAME: (backlog_growth.run, 200_000),
    bulk_cancel.NAME: (bulk_cancel.run, 100_000),
    bytes_per_execution.NAME: (bytes_per_execution.run, 10_000),
    capabilities.NAME: (capabilities.run, 10_000),
    cells.NAME: (cells.run, 24_000),
    costs.NAME: (costs.run, 5_000),
    idle.NAME: (idle.run, 20),
    idle.FLEET: (idle.run_fleet, 20),
    keyed_creates.NAME: (keyed_creates.run, 10_000),
    memory_use.NAME: (memory_use.run, 100_000),
    enqueue.NAME: (enqueue.run, 10_000),
    find.NAME: (find.run, 1_000_000),
    flows.CHAIN: (flows.run_chain, 100),
    flows.FAN_OUT: (flows.run_fan_out, 30),
    flows.QUORUM: (flows.run_quorum, 1_000),
    flows.GRAPH: (flows.run_graph, flows.LARGE),
    processes.NAME: (processes.run, 20_000),
    flow_history.NAME: (flow_history.run, 10_000),
    quota_claims.NAME: (quota_claims.run, 10_000),
    suspension.RESUME: (suspension.run_resume, 1_000),
    suspension.LIST: (suspension.run_list, 100_000),
    limits.REPORT: (limits.run_reports, 10_000),
    http.SUBMIT: (http.run_submit, 5_000),
    http.DRAIN: (http.run_drain, 3_000),
    sdk.DRAIN: (sdk.run_drain, 5_000),
    sdk.STEPS: (sdk.run_steps, 200),
    sdk.LATENCY: (sdk.run_latency, 300),
    starts.DEV: (starts.run_dev, 5),
    starts.IMPORT: (starts.run_import, 7),
    streams.APPEND: (streams.run_append, 60_000),
    streams.LATENCY: (streams.run_latency, 500),
    subscribe.NAME: (subscribe.run, 100_000),
    subscribe.MANY: (subscribe.run_many, 100),
    sustained.NAME: (sustained.run, 250_000),
    timers.NAME: (timers.run, 1_000_000),
    wal.NAME: (wal.run, 5_000),
}
PEER_WORKLOADS: dict[str, tuple[Scenario, int]] = {
    "drain": (peers.run_drain, 5_000),
    "latency": (peers.run_latency, 100),
}


async def _measure(scenario: Scenario, store: str, n: int, workers: int) -> list[Measured]:
    return await scenario(store, n, workers)


def main() -> None:
    if sys.argv[1:2] == [capacity.NAME]:
        capacity.main(sys.argv[2:])
        return
    if sys.argv[1:2] == [cell_simulation.NAME]:
        cell_simulation.main(sys.argv[2:])
        return
    if sys.argv[1:2] == [speed_page.NAME]:
        speed_page.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(
        prog="benchmarks", description="Measure FlowFabric on this machine."
    )
    parser.add_argument("scenario", choices=sorted((*SCENARIOS, peers.NAME)))
    parser.add_argument(
        "--store", choices=("sqlite", "memory", "postgres", "valkey"), default="sqlite"
    )
    parser.add_argument(
        "--workload",
        choices=sorted(PEER_WORKLOADS),
        help=f"of the scenario {peers.NAME}; drain unless told",
    )
    parser.add_argument(
        "--n", type=int, help="how many executions (each scenario has its own default)"
    )
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument(
        "--json", action="store_true", help="one JSON object per measured system and line"
    )
    args = parser.parse_args()
    if args.workload and args.scenario != peers.NAME:
        parser.error(f"--workload goes with the scenario {peers.NAME}")
    scenario, default = (
        PEER_WORKLOADS[args.workload or "drain"]
        if args.scenario == peers.NAME
        else SCENARIOS[args.scenario]
    )
    runner = asyncio.Runner(loop_factory=_loop_factory(args.store))
    with runner:
        results = runner.run(_measure(scenario, args.store, args.n or default, args.workers))
    show(results, as_json=args.json)


def _loop_factory(store: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """On a server all run on uvloop, as the peers do; on SQLite the event loop has little work."""
    if store not in ("postgres", "valkey") or find_spec("uvloop") is None:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


if __name__ == "__main__":
    main()
