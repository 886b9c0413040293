"""The common part of the stories: an app of either version, external actions, and reads of the
stored rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

from flowfabric import App, ExecutionId, OpenWaitpoint
from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.store.schema import TABLES
from flowfabric.testing import ManualClock
from flowfabric.verify.invariants import check
from flowfabric.verify.snapshot import TABLES_READ, snapshot_of

ENDED = ("completed", "failed", "cancelled", "expired", "skipped")
STAYS = {
    *("ff_budget_policy", "ff_budget_usage", "ff_limit_scope", "ff_quota_policy"),
    *(
        "ff_completion_event",
        "ff_lease_event",
        "ff_operator_event",
        "ff_signal_event",
        "ff_outbox_trim",
    ),
    *("ff_lane_gate", "ff_lane_registry", "ff_waitpoint_hmac"),
}
"""What is there still when all runs are forgotten."""


class Story(ABC):
    """The external state of the runs of one tenant. It survives every process."""

    losses = 0
    """How often the story itself takes a lease away."""
    in_turn = True
    """Whether a version of the tasks works only when the one before is gone."""

    def __init__(self, base: Engine, clock: ManualClock, tenant: str = "default") -> None:
        self.base, self.clock, self.tenant = base, clock, tenant
        self.client = self.app(base)
        self.steps: Counter[str] = Counter()
        self.happened: Counter[str] = Counter()
        self.links: list[OpenWaitpoint] = []
        self.answered: set[tuple[str, str]] = set()
        self.root: ExecutionId
        self.has_ended = False

    def app(self, engine: Engine, version: int = 1) -> App:
        app = App("memory://", engine=engine, namespace=self.tenant)
        self.declare(app, version)
        return app

    @abstractmethod
    def declare(self, app: App, version: int) -> None: ...

    @abstractmethod
    async def begin(self) -> None: ...

    @abstractmethod
    async def check(self) -> None:
        """All runs have ended as expected."""

    @abstractmethod
    async def check_all_met(self) -> None:
        """Without faults, all features that shall meet in the story have met."""

    async def people(self) -> int:
        """External actions while no process has work; returns their number."""
        return await self.answers("ann", "bob")

    async def is_over(self) -> bool:
        return all(row["public_state"] in ENDED for row in await self.rows("ff_exec_core"))

    # ---- for the tasks

    def note(self, what: str, version: int) -> str:
        """The body of a step: its value contains the process and the time."""
        self.steps[what] += 1
        return f"{what} by v{version}"

    def check_steps(self, faults: int) -> None:
        """A step runs again only if its first run was lost."""
        often = {
            step: times for step, times in self.steps.items() if times > 1 + self.losses + faults
        }
        assert not often, often

    def check_versions(self, steps: list[str]) -> None:
        """Steps of a later version follow those of an earlier one."""
        found = [step.rpartition(" by ")[2] for step in steps]
        assert found == sorted(found) or not self.in_turn, steps

    def first(self, what: str) -> bool:
        """Whether this is the first time."""
        self.happened[what] += 1
        return self.happened[what] == 1

    async def lasts(self, ms: int) -> None:
        """The duration of a task."""
        self.clock.now_ms = await self.base.store.now_ms() + ms

    async def answers(self, *who: str) -> int:
        """All approvers approve, once each."""
        done = 0
        for link in self.links:
            name = who[int(link.approver or "1") - 1]
            if (link.token, name) not in self.answered:
                self.answered.add((link.token, name))
                run = self.client.run(link.run)
                try:
                    await run.signal(
                        "approved", source=name, waitpoint=link.waitpoint_id, token=link.token
                    )
                    done += 1
                except EngineError:
                    pass  # it was asked by a run that is over
        return done

    # ---- looking

    async def happenings(self, kind: str) -> list[list[str]]:
        """The history of each run of a task, sorted."""
        rows = (await self.by_kind())[kind]
        idents = [ExecutionId.of(row["partition_key"], row["execution_id"]) for row in rows]
        pages = [await self.base.history(ident, 500) for ident in idents]
        return sorted([entry.what.value for entry in page.items] for page in pages)

    async def rows(self, table: str) -> list[dict[str, Any]]:
        """Rows of this tenant, if the table has a namespace."""
        names = TABLES[table].names
        rows = [
            dict(zip(names, row, strict=True))
            for row in (await self.base.store.dump([table]))[table]
        ]
        return [row for row in rows if row.get("namespace", self.tenant) == self.tenant]

    async def by_kind(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for row in await self.rows("ff_exec_core"):
            found.setdefault(row["execution_kind"], []).append(row)
        return found

    async def result(self, task: str) -> Any:
        return await self.client.run(self.root, task).result(timeout=1)


async def sound(engine: Engine) -> None:
    """Every invariant holds."""
    assert [
        str(violation) for violation in check(snapshot_of(await engine.store.dump(TABLES_READ)))
    ] == []


async def left(engine: Engine) -> dict[str, int]:
    """Tables that still have rows although every run is removed."""
    found = await engine.store.dump(TABLES)
    return {table: len(rows) for table, rows in found.items() if rows and table not in STAYS}
