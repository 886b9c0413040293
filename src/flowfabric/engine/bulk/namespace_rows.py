"""The rows of a namespace beside its executions: flows, keys, limits, schedules, workers, jobs."""

from __future__ import annotations

from itertools import starmap
from typing import Any
from uuid import UUID

import msgspec

from flowfabric.ids import FLOW_PARTITIONS
from flowfabric.model.bulk import JobRow
from flowfabric.model.flow import Flow
from flowfabric.plan import Plan
from flowfabric.rules.bulk import erasure
from flowfabric.rules.flows.flow_fields import namespace_of
from flowfabric.rules.workers import retention
from flowfabric.store.port import Find, Match, Scan, Store
from flowfabric.store.schema import TABLES

PAGE = 200
PARTITIONS = 32
"""So many partitions of flows are read together."""
EXAMINED = 5_000


class NamespaceRows:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(
        self, job: JobRow, namespace: str, position: str | None
    ) -> tuple[list[Plan], str | None]:
        """Plans that delete some rows, and the position behind them; None at the end."""
        part, after = _parsed(position)
        if part < FLOW_PARTITIONS:
            plans, part, last = await self._flows(job, namespace, part, after)
        else:
            erased = erasure.TABLES[part - FLOW_PARTITIONS]
            plans, last = await self._rows(job, namespace, erased, after)
            part += last is None
        return plans, _text(part, last or ()) if part < erasure.PARTS else None

    async def _flows(
        self, job: JobRow, namespace: str, part: int, after: tuple[Any, ...]
    ) -> tuple[list[Plan], int, tuple[Any, ...] | None]:
        """Flows without members, of some partitions, and where the next page begins.

        Flows with members are deleted with the last member.
        """
        parts = range(part, min(part + PARTITIONS, FLOW_PARTITIONS))
        first = (UUID(after[0]),) if after else None
        reads = [
            Scan("flows", {"partition_key": at}, first if at == part else None, limit=PAGE)
            for at in parts
        ]
        plans: list[Plan] = []
        loaded = await self._store.load(reads)
        for at, rows in zip(parts, loaded.rows, strict=True):
            flows = list(starmap(Flow, rows))
            plans += [
                retention.delete_flow(flow)
                for flow in flows
                if namespace_of(flow) == namespace and flow.created_at_ms <= job.created_at_ms
            ]
            if len(flows) == PAGE:
                return plans, at, (flows[-1].flow_id,)
        return plans, parts.stop, None

    async def _rows(
        self, job: JobRow, namespace: str, erased: erasure.Erased, after: tuple[Any, ...]
    ) -> tuple[list[Plan], tuple[Any, ...] | None]:
        read = Find(
            erased.index,
            erased.by,
            erased.columns,
            (Match("namespace", "=", namespace),),
            after=_typed(erased, after) if after else None,
            limit=PAGE,
            examine=EXAMINED,
        )
        (rows,) = (await self._store.load((read,))).rows
        hits = [row[1:] for row in rows if row[0]]
        behind = hits[-1] if len(hits) == PAGE else None
        if behind is None and rows and not rows[-1][0]:
            behind = rows[-1][1:]
        others = [row for row in hits if row[0] != job.job_id]
        values = None if behind is None else dict(zip(erased.columns, behind, strict=True))
        last = None if values is None else tuple(values[column] for column in erased.by)
        return erasure.erase(erased, namespace, others), last


def _parsed(position: str | None) -> tuple[int, tuple[Any, ...]]:
    if position is None:
        return 0, ()
    part, *values = msgspec.json.decode(position)
    return part, tuple(values)


def _text(part: int, values: tuple[Any, ...]) -> str:
    return msgspec.json.encode((part, *values)).decode()


def _typed(erased: erasure.Erased, values: tuple[Any, ...]) -> tuple[Any, ...]:
    kinds = TABLES[erased.table].kinds
    return tuple(
        UUID(value) if kinds[column] == "uuid" else value
        for column, value in zip(erased.by, values, strict=True)
    )
