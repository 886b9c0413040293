"""A process with a worker of tasks for each namespace, as users run them: claims, renewals, steps
and waits are the SDK's.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from random import Random

from flowfabric import Engine, Worker

from .child import Setup
from .engine_log import EngineLog
from .logs import Log
from .plan import LOOPS, probe_of
from .stores import entered
from .task_plan import LEASE_S, NAMESPACES
from .tasks import schedule, tasks
from .worker import Trap

POINTS = (
    "before_complete",
    "after_complete",
    "after_claim",
    "after_fail",
    "after_step",
    "after_suspend",
    "after_delay",
    "after_submit",
)


def _blocks(setup: Setup, log: Log) -> bool:
    if setup.may_die:
        log.write("note", "blocks")
    return setup.may_die


async def main(setup: Setup, engine: Engine, log: Log, stop: asyncio.Event) -> None:
    trap = Trap(Random(f"{setup.seed}/{setup.instance}"), setup, log, POINTS)
    around = EngineLog(log, trap).around
    role = setup.role
    async with AsyncExitStack() as stack:
        for namespace in NAMESPACES:
            app = tasks(setup.url, namespace, setup.instance, partial(_blocks, setup, log))
            app.around = around
            if setup.soak is not None:
                schedule(app)
            await entered(stack, app)
            worker = Worker(
                app,
                lease=LEASE_S,
                grace=2,
                loops=LOOPS,
                worker_id=role,
                capabilities=[probe_of(role)],
            )
            worker.instance_id = f"{setup.instance}.{namespace}"
            log.write("note", "serves", worker=worker.instance_id, namespace=namespace)
            await entered(stack, worker)
        await stop.wait()
