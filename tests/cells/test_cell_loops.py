"""The loops of all cells run in the process that leads those of the base cell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flowfabric.connect import connect_store
from flowfabric.connect.valkey import _led
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.core import Settings
from flowfabric.ids import ExecutionId
from flowfabric.loops import cell_loops
from flowfabric.loops.cell_loops import CellLoops
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.store.valkey.cells import Registry
from flowfabric.store.valkey.store import ValkeyStore
from tests.cells.helpers import LANE, claim, create, new_url, opened
from tests.patience import patient


async def delayed(engine: Any, namespace: str, by_ms: int) -> ExecutionId:
    ident = ExecutionId.solo(LANE)
    until = await engine.server_time_ms() + by_ms
    await engine.create_execution(
        CreateExecutionArgs(execution_id=ident, namespace=namespace, delay_until=until)
    )
    return ident


async def until(ends: Callable[[], bool]) -> None:
    async with patient(30):
        while not ends():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until_state(engine: Any, ident: ExecutionId, state: str) -> None:
    async with patient(30):
        while await engine.read_execution_state(ident) != state:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def is_asleep(loops: CellLoops, name: str) -> bool:
    cell = loops.cells.get(name)
    return cell is not None and cell.seen is not None


@asynccontextmanager
async def looping(store: Any) -> Any:
    async with _led(store, Settings(), LoopSettings()) as loops:
        assert isinstance(loops, CellLoops)
        loops.start()
        try:
            yield loops
        finally:
            await loops.stop(5.0)


async def test_a_delay_ends_in_a_namespace_that_no_process_has_open() -> None:
    url = new_url()
    async with opened(url) as engine:
        ident = await delayed(engine, "ann", 300)
    leader = await connect_store(url)
    try:
        async with opened(url) as other:
            await until_state(other, ident, "waiting")
            assert leader.loops_are_running
            late = await delayed(other, "eve", 200)
            await until_state(other, late, "waiting")
    finally:
        await leader.close()


async def test_a_sleeping_cell_is_woken_by_a_commit_and_by_its_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cell_loops, "QUIET_S", 0.2)
    async with opened() as engine:
        await create(engine, "ann")
        async with looping(engine.store) as loops:
            await until(lambda: is_asleep(loops, "ann"))
            soon = await delayed(engine, "ann", 100)
            await until_state(engine, soon, "waiting")
            late = await delayed(engine, "ann", 1_500)
            await until(lambda: is_asleep(loops, "ann"))
            assert await engine.read_execution_state(late) == "delayed"
            await loops.look()
            assert is_asleep(loops, "ann"), "its loops commit as well"
            await until_state(engine, late, "waiting")


async def test_a_commit_whose_message_was_lost_wakes_a_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cell_loops, "QUIET_S", 0.2)
    monkeypatch.setattr(cell_loops, "LOOK_S", 0.05)
    monkeypatch.setattr(ValkeyStore, "_told", lambda *_: None)
    async with opened() as engine:
        await create(engine, "ann")
        async with looping(engine.store) as loops:
            await until(lambda: is_asleep(loops, "ann"))
            ident = await delayed(engine, "ann", 300)
            await until_state(engine, ident, "waiting")


async def test_a_cell_that_does_not_answer_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cell_loops, "AFTER_ERROR_S", 0.05)
    real, broken = ValkeyStore.load, {"bob"}

    async def load(self: ValkeyStore, reads: Sequence[Any]) -> Any:
        if broken & {self.options.cell.rpartition("/")[2]}:
            raise OSError("no route to this cell")
        return await real(self, reads)

    async with opened() as engine:
        idents = {name: await delayed(engine, name, 200) for name in ("ann", "bob")}
        monkeypatch.setattr(ValkeyStore, "load", load)
        async with looping(engine.store):
            await until_state(engine, idents["ann"], "waiting")
            broken.clear()
            await until_state(engine, idents["bob"], "waiting")


async def test_the_register_is_told_once_of_a_cell() -> None:
    async with opened() as engine:
        store = engine.store
        assert isinstance(store, ValkeyStore) and store._link is not None
        registry, hub = Registry(store.options, store._link), store.hub
        with hub.waiter((cell_loops.REGISTERED, None)) as new:
            new.arm()
            await registry.add("ann")
            async with patient(30):
                assert await new.wait(None)
        assert await registry.names() == ["ann"]
        await create(engine, "bob")
        before = await registry.last_commits(["ann", "bob"])
        assert before[0] == b"" and before[1]
        await claim(engine, "bob")
        assert (await registry.last_commits(["bob"]))[0] is not None
