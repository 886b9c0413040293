"""The example of a store passes the conformance suite, and its file keeps what was committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from examples.json_store import JsonStore, json_engine

from flowfabric import ClaimPolicy, CreateExecutionArgs, ExecutionId
from flowfabric.errors import ConfigError, TransportError
from flowfabric.plan import Applied, Refused
from flowfabric.store.memory import MemoryStore
from flowfabric.testing.conformance import *  # noqa: F403 - as the module of another project does
from flowfabric.testing.conformance import CASES, ManualClock
from flowfabric.testing.conformance.deletes_and_events import remove
from flowfabric.testing.conformance.helpers import (
    COMPLETIONS,
    EXEC,
    LANE,
    LEASES,
    count,
    events,
    execution,
    get_execution,
    image,
    insert,
    put,
    take,
    uid,
)


class RereadStore(JsonStore):
    """Reads the file for each call, so the cases judge what the file holds."""

    def tables(self) -> MemoryStore:
        self.reload()
        return super().tables()


@pytest.fixture(
    params=[
        pytest.param(JsonStore, marks=pytest.mark.nightly),
        pytest.param(RereadStore, marks=pytest.mark.sampled(4)),
    ]
)
def store(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> JsonStore:
    made: JsonStore = request.param(tmp_path / "ff.json", clock)
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ff.json"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def write(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")


def inode(path: Path) -> int:
    """Another number after each write, since a write replaces the file."""
    return path.stat().st_ino


def test_the_import_brings_every_case() -> None:
    assert set(CASES) <= set(globals())


async def test_rows_and_numbers_survive_reopening(path: Path, clock: ManualClock) -> None:
    first = JsonStore(path, clock)
    await put(
        first,
        execution(1, payload=bytes(range(256)), budget_ids=("a", "ü"), retain_until_ms=2**63 - 1),
        execution(2),
        insert(LEASES, execution_id=uid(1), lease_id=uid(9)),
        insert(COMPLETIONS, execution_id=uid(1)),
        insert(LEASES, execution_id=uid(2)),
    )
    assert isinstance(await first.commit(remove(2)), Applied)
    before = await image(first)
    await first.close()

    second = JsonStore(path, clock)
    assert await image(second) == before
    assert [event["event_id"] for event in await events(second, LEASES)] == [1]
    await put(second, insert(LEASES, execution_id=uid(3)))
    assert [event["event_id"] for event in await events(second, LEASES)] == [1, 3]
    await second.close()


async def test_sweeps_survive_reopening(path: Path, clock: ManualClock) -> None:
    first = JsonStore(path, clock)
    await put(first, execution(1), execution(2))
    assert await first.sweep(take("w"), 1) == [(uid(1),)]
    await first.close()
    second = JsonStore(path, clock)
    assert (await get_execution(second, 1))["current_worker_id"] == "w"
    assert await second.sweep(take("w"), 5) == [(uid(2),)]
    await second.close()


async def test_time_does_not_run_back_after_reopening(path: Path, clock: ManualClock) -> None:
    first = JsonStore(path, clock)
    latest = clock.advance(10_000)
    await put(first, execution(1))
    await first.close()
    clock.advance(-9_000)
    second = JsonStore(path, clock)
    await second.prepare()
    assert await second.now_ms() == latest
    await second.close()


async def test_a_commit_that_cannot_be_written_leaves_no_trace(
    path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonStore(path, clock)
    await put(store, execution(1))
    before, written = await image(store), read(path)
    with store.hub.waiter((COMPLETIONS, None)) as waiter, monkeypatch.context() as full:
        full.setattr("examples.json_store.os.fsync", _no_space)
        with pytest.raises(TransportError, match=r"ff\.json could not be written: .*no space"):
            await store.commit(insert(COMPLETIONS))
        (answer,) = await store.commit_many([insert(COMPLETIONS)])
        assert isinstance(answer, TransportError)
        assert answer.doubtful
        assert not await waiter.wait(0)
    assert await image(store) == before
    assert read(path) == written
    await put(store, insert(COMPLETIONS))
    assert [event["event_id"] for event in await events(store, COMPLETIONS)] == [1]
    await store.close()


def _no_space(descriptor: int) -> None:
    raise OSError(28, "no space left on device")


async def test_a_value_of_another_type_is_not_written(path: Path, clock: ManualClock) -> None:
    store = JsonStore(path, clock)
    plans = [execution(1), execution(2, budget_ids=7), execution(3)]
    first, second, third = await store.commit_many(plans)
    assert isinstance(first, Applied)
    assert isinstance(third, Applied)
    assert isinstance(second, TransportError)
    assert "got `int` - at `$.tables.ff_exec_core[1].budget_ids`" in str(second)
    assert not second.doubtful
    assert await count(store, EXEC) == 2
    await store.close()


async def test_a_refused_plan_and_an_empty_sweep_do_not_write(
    path: Path, clock: ManualClock
) -> None:
    store = JsonStore(path, clock)
    await put(store, execution(1))
    written = inode(path)
    assert isinstance(await store.commit(execution(1)), Refused)
    assert await store.commit_many([execution(1)]) == [Refused()]
    assert await store.sweep(take("w", "another lane"), 5) == []
    assert inode(path) == written
    await store.close()


async def test_one_store_at_a_time_has_the_file(path: Path) -> None:
    first = JsonStore(path)
    with pytest.raises(ConfigError, match="another store has it open"):
        JsonStore(path)
    await first.close()
    await JsonStore(path).close()


@pytest.mark.parametrize("content", ["", "[]", '{"now_ms": 1, "numbers": {}, "tables": {}}', "{}"])
async def test_a_foreign_file_is_refused_and_kept(path: Path, content: str) -> None:
    write(path, content)
    store = JsonStore(path)
    with pytest.raises(ConfigError, match=r"ff\.json: "):
        await store.commit(insert(LANE, lane_id="a"))
    with pytest.raises(ConfigError, match=r"ff\.json: "):
        await store.prepare()
    assert read(path) == content
    await store.close()


async def test_the_file_is_json_with_named_columns(path: Path) -> None:
    store = JsonStore(path)
    await put(store, insert(LANE, lane_id="urgent"))
    await store.close()
    content = json.loads(read(path))
    assert content["tables"][LANE][0]["lane_id"] == "urgent"


async def test_an_execution_continues_after_reopening(path: Path) -> None:
    job = ExecutionId.solo("lane")
    async with json_engine(path) as engine:
        await engine.create_execution(CreateExecutionArgs(execution_id=job, lane_id="lane"))
    async with json_engine(path) as engine:
        handle = await engine.claim("lane", (), ClaimPolicy("w", "w-1"))
        assert handle is not None
        await engine.complete(handle, b"out")
    async with json_engine(path) as engine:
        assert await engine.get_execution_result(job) == b"out"
