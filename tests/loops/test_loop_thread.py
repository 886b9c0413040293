"""The loops run beside user code that blocks its event loop."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

import pytest

from flowfabric.connect import sqlite_engine
from flowfabric.engine.core import Settings
from flowfabric.loops.loop_thread import LoopThread
from flowfabric.model.policy import ExecutionPolicy, RetryPolicy, TimeoutPolicy
from flowfabric.store.sqlite.registry import open_store
from tests.engine.helpers import create, loop_threads, running, state, worker
from tests.patience import patient

BLOCKED_S = 2.0
NO_RETRIES = RetryPolicy(max_retries=0, backoff={})


@pytest.mark.meets("freeze", "timeout")
@pytest.mark.meets("freeze", "deadline")
@pytest.mark.meets("freeze", "delay")
@pytest.mark.meets("freeze", "reclaim")
async def test_timers_move_while_user_code_blocks_the_event_loop(tmp_path: Path) -> None:
    engine = sqlite_engine(
        open_store(str(tmp_path / "live.db")), Settings(lease_reclaim_grace_ms=20)
    )
    engine.with_scanners()
    soon = await engine.server_time_ms() + 300
    policy = ExecutionPolicy(
        timeout_policy=TimeoutPolicy(attempt_timeout_ms=100), retry_policy=NO_RETRIES
    )
    slow, _ = await running(engine, policy=policy)
    lost, _ = await running(engine, worker(ttl_ms=100))
    late = await create(engine, lane_id="late", execution_deadline_at=soon)
    delayed = await create(engine, lane_id="later", delay_until=soon)
    time.sleep(BLOCKED_S)  # noqa: ASYNC251
    try:
        assert await state(engine, slow) == "ENDED(expired)"
        assert await state(engine, late) == "ENDED(expired)"
        moved = (
            await engine.store.execute_for_test(
                "SELECT last_transition_at FROM ff_exec_core WHERE lane_id = 'later'"
            )
        )[0][0]
        assert await state(engine, delayed) == "READY" and moved < soon + BLOCKED_S * 1000 / 2
        assert await state(engine, lost) == "READY"
    finally:
        await engine.close()


async def test_an_engine_that_was_not_closed_leaves_no_loops_behind(tmp_path: Path) -> None:
    engine = sqlite_engine(open_store(str(tmp_path / "live.db")))
    engine.with_scanners()
    (thread,) = loop_threads()
    del engine
    gc.collect()
    async with patient(10):
        while thread.is_alive():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_the_loops_stay_while_another_engine_uses_the_store(tmp_path: Path) -> None:
    first, second = (sqlite_engine(open_store(str(tmp_path / "live.db"))) for _ in range(2))
    first.with_scanners()
    del first
    gc.collect()
    assert second.loops_are_running
    await second.shutdown_prepare()
    assert not second.loops_are_running
    await second.store.close()
    await second.close()


async def test_loops_that_cannot_be_opened_do_not_hold_up_the_start() -> None:
    def broken() -> None:
        raise OSError("injected")

    loops = LoopThread(broken)  # type: ignore[arg-type]
    loops.start()
    assert not loops.is_running and not loops.leads
    await loops.stop(1)
    assert not loop_threads()
