"""What a run leaves to be judged: the rows of the store and the logs of the processes."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.execution import Execution
from flowfabric.store.port import Row
from flowfabric.verify.world import Event, World, world_of

from .logs import History

GRANTS = ("acquired", "reclaimed")
FENCED = ("renew", "progress", "complete", "fail", "delay", "suspend", "give_up")
ENDS = ("complete", "fail", "delay", "suspend", "give_up")
RAISING = ("suspend", "give_up")
"""Writes that raise the epoch, and leave their event under the next."""


class Evidence(Struct, frozen=True):
    world: World
    tables: Mapping[str, list[Row]]
    history: History

    @classmethod
    def of(cls, tables: Mapping[str, list[Row]], history: History) -> Evidence:
        return cls(world_of(tables), tables, history)

    def execution(self, ident: str) -> Execution | None:
        return self.world.executions.get(key_of(ident))

    def leases(self, ident: str) -> list[Event]:
        return self.world.leases.get(key_of(ident), [])


def key_of(ident: str) -> tuple[int, UUID]:
    parsed = ExecutionId(ident)
    return parsed.partition_index, parsed.uuid
