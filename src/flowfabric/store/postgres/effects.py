"""What a commit changed: topics to ring now, and when each timer is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flowfabric.plan import Plan
from flowfabric.store.batching import Sweep
from flowfabric.store.sql.pg_form import PgForm
from flowfabric.store.sql.rows import SqlRow, SqlRows
from flowfabric.store.wakeups import Topic


class Effects:
    __slots__ = ("dues", "topics")

    def __init__(self) -> None:
        self.topics: dict[Topic, None] = {}
        self.dues: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.topics or self.dues)

    def due(self, timer: str, at_ms: int) -> None:
        """The earliest time counts."""
        self.dues[timer] = min(at_ms, self.dues.get(timer, at_ms))

    def merge(self, topics: Iterable[Topic], dues: Mapping[str, int]) -> None:
        self.topics.update(dict.fromkeys(topics))
        for timer, at_ms in dues.items():
            self.due(timer, at_ms)

    def add_channels(self, sql: PgForm) -> None:
        for channel in sql.channels:
            self.topics[channel, None] = None

    def add(self, sql: PgForm, values: Sequence[Any], row: SqlRow) -> None:
        """The wake-ups of one plan, from its arguments and its answer row."""
        for wake in sql.wakes:
            if wake.at is None:
                self.topics[wake.topic, _at(wake.key, values, row)] = None
                continue
            at = _at(wake.at, values, row)
            if at is not None:
                self.due(wake.topic, at)

    def add_all(self, sql: PgForm, plans: Sequence[Plan]) -> None:
        """For a form whose wake-ups depend on the arguments only."""
        for wake in sql.wakes:
            if wake.at is None:
                keys = {None if wake.key is None else plan.values[wake.key] for plan in plans}
                self.topics.update(dict.fromkeys((wake.topic, key) for key in keys))
                continue
            times = [at for plan in plans if (at := plan.values[wake.at]) is not None]
            if times:
                self.due(wake.topic, min(times))

    def add_swept(self, sql: PgForm, wanted: Sequence[Sweep], rows: SqlRows) -> None:
        """For a sweep; of the times in its rows, only the earliest is added."""
        if any(wake.at is None or wake.at >= 0 for wake in sql.wakes):
            for row in rows:
                self.add(sql, wanted[row[1] - 1][0].values, row)
            return
        for wake in sql.wakes:
            at = wake.at or 0
            times = [row[at] for row in rows if row[at] is not None]
            if times:
                self.due(wake.topic, min(times))


def _at(position: int | None, values: Sequence[Any], row: SqlRow) -> Any:
    if position is None:
        return None
    return values[position] if position >= 0 else row[position]
