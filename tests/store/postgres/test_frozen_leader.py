"""A leader that is stopped, killed or blocked: the timers of all others move on."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flowfabric.connect import postgres_engine
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.store import PostgresStore
from tests.engine.helpers import create, fields, loop_threads, worker
from tests.patience import patient

from .helpers import engine_on, one, plain, until

MOST_S = 15.0


@contextmanager
def leading(options: Options, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that leads."""
    command = [sys.executable, "-m", "tests.store.leader_child", options.url, *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "leads\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
@pytest.mark.meets("freeze", "leader_change", "delay")
async def test_delays_end_while_the_leader_is_stopped(
    options: Options, how: signal.Signals
) -> None:
    with leading(options) as process:
        async with engine_on(options) as engine:
            engine.with_scanners()
            with plain(options) as db:
                before = one(db, "SELECT holder FROM ff_leader")
                process.send_signal(how)
                ident = await create(engine, delay_until=await engine.server_time_ms() + 500)
                async with patient(MOST_S):
                    handle = await engine.claim("default", (), worker(max_wait_ms=60_000))
                assert handle is not None and fields(handle).execution_id == ident
                assert one(db, "SELECT holder FROM ff_leader") != before


@pytest.mark.meets("freeze", "delay")
async def test_a_task_that_blocks_the_event_loop_of_the_leader_delays_no_timer(
    options: Options,
) -> None:
    """The loops have a thread of their own, so the lead does not even change."""
    with leading(options, "30"):
        async with engine_on(options) as engine:
            with plain(options) as db:
                before = one(db, "SELECT holder FROM ff_leader")
                ident = await create(engine, delay_until=await engine.server_time_ms() + 200)
                async with patient(MOST_S):
                    handle = await engine.claim("default", (), worker(max_wait_ms=60_000))
                assert handle is not None and fields(handle).execution_id == ident
                assert one(db, "SELECT holder FROM ff_leader") == before


async def test_an_engine_that_was_not_closed_leaves_no_loops_behind(options: Options) -> None:
    engine = postgres_engine(await PostgresStore(options).open())
    engine.with_scanners()
    (thread,), store = loop_threads(), engine.store
    del engine
    gc.collect()
    await until(lambda: not thread.is_alive())
    await store.close()
