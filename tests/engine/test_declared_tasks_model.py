"""Random starts, repetitions and removals of workers against a model of the registry."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from flowfabric import Engine, memory_engine
from flowfabric.connect import sqlite_engine
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.model.policy import ExecutionPolicy
from flowfabric.model.quota import CreateQuotaPolicyArgs
from flowfabric.model.task import RegisterTasksArgs, TaskDeclaration
from flowfabric.rules.workers import tasks as rules
from flowfabric.store.sqlite.registry import open_store
from flowfabric.testing import ManualClock

NAMES = ("a", "b")
A, B = UUID(int=1), UUID(int=2)
QUOTAS = (None, A, B)


class Step(Struct, frozen=True):
    """A worker starts with a declaration, repeats it, or a task is removed."""

    act: str
    worker: int
    name: str
    version: int
    lane: str
    quota: int
    pause_ms: int

    @property
    def task(self) -> TaskDeclaration:
        quota = QUOTAS[self.quota]
        policy = ExecutionPolicy(quota_policy_id=None if quota is None else str(quota))
        return TaskDeclaration(
            name=self.name, version=self.version, lane_id=self.lane, policy=policy
        )


STEPS = st.lists(
    st.builds(
        Step,
        act=st.sampled_from(("start", "start", "repeat", "forget")),
        worker=st.integers(0, 2),
        name=st.sampled_from(NAMES),
        version=st.integers(0, 2),
        lane=st.sampled_from(("x", "y")),
        quota=st.integers(0, 2),
        pause_ms=st.sampled_from((0, 1, 1_000, 600_000)),
    ),
    max_size=25,
)


class Model:
    """The stored declaration of each name, by its version and the order of starts."""

    def __init__(self) -> None:
        self.stored: dict[str, tuple[TaskDeclaration, int]] = {}
        self.started: dict[int, tuple[TaskDeclaration, int]] = {}
        self.starts = 0

    def start(self, step: Step) -> None:
        self.starts += 1
        self.started[step.worker] = (step.task, self.starts)
        self._offer(step.task, self.starts)

    def repeat(self, step: Step) -> None:
        if step.worker in self.started:
            self._offer(*self.started[step.worker])

    def forget(self, step: Step) -> None:
        self.stored.pop(step.name, None)

    def _offer(self, task: TaskDeclaration, start: int) -> None:
        known = self.stored.get(task.name)
        if known is None or (task.version, start) > (known[0].version, known[1]):
            self.stored[task.name] = (task, start)


async def check(engine: Engine, clock: ManualClock, steps: list[Step]) -> None:
    for ident in (A, B):
        await engine.create_quota_policy(
            CreateQuotaPolicyArgs(quota_policy_id=ident, max_concurrent=1)
        )
    model, times = Model(), dict[int, int]()
    for step in steps:
        clock.advance(step.pause_ms)
        getattr(model, step.act)(step)
        await _done(engine, step, model, times)
        found = await _stored(engine)
        assert found == {name: task for name, (task, _) in model.stored.items()}
        scopes = (await engine.list_limit_scopes()).items
        assert {(each.scope_id, str(each.limit_id)) for each in scopes} == {
            (name, task.policy.quota_policy_id)
            for name, task in found.items()
            if task.policy.quota_policy_id
        }


async def _done(engine: Engine, step: Step, model: Model, times: dict[int, int]) -> None:
    if step.act == "forget":
        await engine.forget_task("default", step.name)
    elif step.act == "start":
        answer = await engine.register_tasks(RegisterTasksArgs(tasks=(step.task,)))
        times[step.worker] = answer.declared_at_ms
    elif step.worker in times:
        task, _ = model.started[step.worker]
        args = RegisterTasksArgs(tasks=(task,), declared_at_ms=times[step.worker])
        await engine.register_tasks(args)


async def _stored(engine: EngineProtocol) -> dict[str, TaskDeclaration]:
    found = [await engine.read_task("default", name) for name in NAMES]
    return {each.declaration.name: each.declaration for each in found if each is not None}


def in_memory(steps: list[Step]) -> None:
    async def run() -> None:
        clock = ManualClock()
        engine = memory_engine(clock=clock)
        await check(engine, clock, steps)
        await engine.close()

    asyncio.run(run())


@settings(max_examples=60)
@given(STEPS)
def test_the_registry_is_that_of_the_model_in_memory(steps: list[Step]) -> None:
    in_memory(steps)


BUGS: dict[str, tuple[str, object]] = {
    "every call replaces": ("_replaces", lambda version, at, mark: True),
    "versions do not count": ("_replaces", lambda version, at, mark: at > mark.declared_at_ms),
    "a start in the same millisecond is no start": ("_start", lambda stored, tasks, now: now),
    "a limit that is gone stays attached": ("LIFT_LIMIT", rules.REDECLARE),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("bug", BUGS)
def test_the_model_finds_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, *BUGS[bug])
    search = settings(max_examples=200, derandomize=True, database=None)(given(STEPS)(in_memory))
    with pytest.raises(AssertionError):
        search()


@settings(max_examples=15)
@given(STEPS)
def test_the_registry_is_that_of_the_model_on_sqlite(
    tmp_path_factory: Any, steps: list[Step]
) -> None:
    folder: Path = tmp_path_factory.mktemp("model")

    async def run() -> None:
        clock = ManualClock()
        engine = sqlite_engine(open_store(str(folder / "ff.db"), clock=clock), seed=1)
        await engine.prepare()
        await check(engine, clock, steps)
        await engine.close()

    asyncio.run(run())
