"""A store whose plans write no events of one channel."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from flowfabric.model.lease import BackendTag
from flowfabric.model.queue_stats import LongWriter
from flowfabric.plan import Answer, Form, Insert, Plan, Refused, Step, Wake
from flowfabric.store.port import Loaded, Read, Row, Store
from flowfabric.store.wakeups import Wakeups


class WithoutEvents:
    """Hands everything to `inner`, plans without the inserts into the outbox `channel`."""

    def __init__(self, inner: Store, channel: str) -> None:
        self.inner, self._channel = inner, channel

    def _plan(self, plan: Plan) -> Plan:
        form, values = without(plan.form, self._channel)
        return plan if form is plan.form else Plan(form, values(plan.values))

    def _plans(self, plans: Sequence[Plan]) -> list[Plan]:
        return [self._plan(plan) for plan in plans]

    def commit(self, plan: Plan) -> Awaitable[Answer]:
        return self.inner.commit(self._plan(plan))

    def commit_together(self, plans: Sequence[Plan]) -> Awaitable[Answer]:
        return self.inner.commit_together(self._plans(plans))

    def commit_many(self, plans: Sequence[Plan]) -> Awaitable[list[Answer]]:
        return self.inner.commit_many(self._plans(plans))

    def sweep(self, plan: Plan, limit: int) -> Awaitable[list[Row]]:
        return self.inner.sweep(self._plan(plan), limit)

    def sweeps(
        self, first: Sequence[Plan], wanted: Sequence[tuple[Plan, int]]
    ) -> Awaitable[list[list[Row]] | Refused]:
        swept = [(self._plan(plan), limit) for plan, limit in wanted]
        return self.inner.sweeps(self._plans(first), swept)

    def commit_and_sweep(
        self, plans: Sequence[Plan], plan: Plan, limit: int
    ) -> Awaitable[tuple[list[Answer], list[Row]]]:
        return self.inner.commit_and_sweep(self._plans(plans), self._plan(plan), limit)

    def inside(self, connection: object) -> Store:
        return WithoutEvents(self.inner.inside(connection), self._channel)

    @property
    def label(self) -> str:
        return self.inner.label

    @property
    def tag(self) -> BackendTag:
        return self.inner.tag

    @property
    def durability(self) -> str:
        return self.inner.durability

    @property
    def hub(self) -> Wakeups:
        return self.inner.hub

    def prepare(self) -> Awaitable[str | None]:
        return self.inner.prepare()

    def close(self) -> Awaitable[None]:
        return self.inner.close()

    def now_ms(self) -> Awaitable[int]:
        return self.inner.now_ms()

    def load(self, reads: Sequence[Read]) -> Awaitable[Loaded]:
        return self.inner.load(reads)

    def read_events(self, channel: str, after: int, limit: int) -> Awaitable[list[Row]]:
        return self.inner.read_events(channel, after, limit)

    def last_event(self, channel: str) -> Awaitable[int]:
        return self.inner.last_event(channel)

    def next_due(self, index: str) -> Awaitable[int | None]:
        return self.inner.next_due(index)

    def longest_writer(self) -> Awaitable[LongWriter | None]:
        return self.inner.longest_writer()

    def maintain(self) -> Awaitable[int]:
        return self.inner.maintain()

    def dump(self, tables: Iterable[str]) -> Awaitable[dict[str, list[Row]]]:
        return self.inner.dump(tables)


@cache
def without(form: Form, channel: str) -> tuple[Form, Any]:
    """The form without its events of a channel, and how to take its values from the values of the
    form. A form that writes nothing else, or no such event, stays as it is.
    """
    kept = tuple(step for step in form.steps if not _emits(step, channel))
    if len(kept) == len(form.steps) or not kept:
        return form, tuple
    silent = Form(form.name, *kept, *form.wakes, pick=form.pick, returning=form.returning)
    at = [form.args.index(name) for name in silent.args]
    if len(at) == 1:
        only = at[0]
        return silent, lambda values: (values[only],)
    return silent, itemgetter(*at) if at else lambda values: ()


def _emits(step: Step | Wake, channel: str) -> bool:
    return isinstance(step, Insert) and step.table == channel
