"""The reads of searches, for every source, order and condition that the engine uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from flowfabric.engine.executions.search import DEFAULT_REACH
from flowfabric.engine.executions.search_filter import matches_of
from flowfabric.engine.executions.search_pages import Query, Source
from flowfabric.ids import ExecutionId
from flowfabric.model.search import ExecutionFilter
from flowfabric.model.state import PublicState
from flowfabric.store.port import Find

_SOME = UUID(int=7)
_PARENT = ExecutionId.of(3, _SOME)
FILTERS = (
    ExecutionFilter(),
    ExecutionFilter(parent=_PARENT, tag="a=b", error="E", worker="w"),
    ExecutionFilter(
        state=(PublicState.FAILED, PublicState.EXPIRED),
        task="t",
        lane="lane",
        namespace="n",
        key="k",
        flow=_SOME,
        created_from=1,
        created_before=9,
        ended_from=1,
        ended_before=9,
    ),
)
GROUPS: Mapping[str, Mapping[str, Any]] = {
    "members": {"partition_key": 3, "flow_id": _SOME},
    "failed": {"lane_id": "lane"},
    "retained": {"lane_id": "lane"},
}
INDEXES_USED = (
    *("unowned", "suspended_executions", "members", "failed", "retained", "leased", "lost"),
    *("delayed", "limited", "dependent", "ready", "routed", "blocked"),
)


def finds() -> Iterator[Find]:
    for index in INDEXES_USED:
        groups = [GROUPS[index]] if index in GROUPS else []
        groups += [] if index == "members" else [{}]
        for group in groups:
            examine = None if index in ("leased", "lost") else DEFAULT_REACH.few
            source = Source(index, examine, group)
            for where in FILTERS:
                for after in (None, (5, _SOME)):
                    for descending in (False, True):
                        yield Query(matches_of(where), after, 50, descending).find(source)
