"""Reads an overview from an engine, with a bounded number of calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from flowfabric.cli.top import build, rates
from flowfabric.cli.top.model import Overview, Rates
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import NotFound
from flowfabric.ids import ExecutionId
from flowfabric.model.deployment import Stalled
from flowfabric.model.event import Channel, CompletionEvent, ScannerFilter
from flowfabric.model.explanation import Explanation
from flowfabric.model.search import ExecutionFilter, ExecutionSummary
from flowfabric.model.state import PublicState

FAILING_MS = 600_000
"""Failures of the last ten minutes are shown."""
MAX_RUNS, MAX_FAILED, MAX_CREATED, MAX_WORKERS = 200, 500, 500, 200
EVENT_PAGE, MAX_EVENT_PAGES = 1_000, 5
MAX_EXPLAINED, EXPLAINED_AT_ONCE = 10, 5
EXPLAINED_FOR_S = FAILURES_FOR_S = 5.0
"""Explanations and failures are read again after this time."""
MAX_HISTORY = 120
MAX_CALLS = 6 + MAX_EVENT_PAGES + EXPLAINED_AT_ONCE
"""The most calls of one refresh."""
_FAILED = (PublicState.FAILED, PublicState.EXPIRED)


class _Explained(Struct, frozen=True):
    stalled: Stalled
    at_s: float
    explanation: Explanation | None


class _Failures(Struct, frozen=True):
    at_s: float
    failed: Sequence[ExecutionSummary]
    delayed: Sequence[ExecutionSummary]


class Collector:
    """One refresh after the other. It keeps the position in the events and the recent rates."""

    def __init__(
        self,
        engine: EngineProtocol,
        namespace: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine, self._namespace, self._clock = engine, namespace, clock
        self._cursor = b""
        self._watched_to: int | None = None
        self._samples: tuple[rates.Sample, ...] = ()
        self._history: tuple[Rates, ...] = ()
        self._explained: dict[ExecutionId, _Explained] = {}
        self._failures: _Failures | None = None

    async def collect(self) -> Overview:
        began = self._clock()
        status = await self._engine.read_deployment(self._namespace)
        namespace, now = status.namespace, status.as_of
        found, live, active, failures, explained = await asyncio.gather(
            self._rates(namespace, now),
            self._engine.list_workers(namespace, limit=MAX_WORKERS),
            self._find(namespace, MAX_RUNS, state=(PublicState.ACTIVE,), oldest_first=True),
            self._failing(namespace, now),
            self._explanations(status.stalled[:MAX_EXPLAINED]),
        )
        self._history = (*self._history, found)[-MAX_HISTORY:]
        return Overview(
            as_of=now,
            took_ms=round((self._clock() - began) * 1_000),
            namespace=namespace,
            rates=found,
            history=self._history,
            states=build.states(status.counts),
            lanes=build.lanes(status),
            runs=build.runs(active, now),
            failing=build.failing(failures.failed, failures.delayed),
            workers=build.workers(live.items, status.held, active, now),
            stuck=build.stuck(status.stalled, explained, now),
            budgets=tuple(status.budgets),
            timers=tuple(status.timers),
        )

    async def _find(
        self,
        namespace: str | None,
        limit: int,
        *,
        state: tuple[PublicState, ...] = (),
        created_from: int | None = None,
        ended_from: int | None = None,
        oldest_first: bool = False,
    ) -> Sequence[ExecutionSummary]:
        where = ExecutionFilter(
            namespace=namespace, state=state, created_from=created_from, ended_from=ended_from
        )
        found = await self._engine.find_executions(where, limit, oldest_first=oldest_first)
        return found.items

    async def _rates(self, namespace: str | None, now: int) -> Rates:
        newest = await self._find(namespace, MAX_CREATED, created_from=now - rates.WINDOW_MS)
        created = rates.created_rate(newest, now, is_full=len(newest) == MAX_CREATED)
        events, is_whole = await self._events(namespace)
        if self._watched_to is not None:
            taken = rates.sample(events, self._watched_to, now, is_whole=is_whole)
            self._samples = rates.recent((*self._samples, taken), now)
        self._watched_to = now
        is_sampled = not all(each.is_whole for each in self._samples)
        return Rates(created, rates.ended_rates(self._samples), is_sampled)

    async def _events(self, namespace: str | None) -> tuple[list[CompletionEvent], bool]:
        """The events since the last call. Those behind the last page are left out."""
        wanted = None if namespace is None else ScannerFilter(namespace)
        events: list[CompletionEvent] = []
        is_whole = True
        for _ in range(MAX_EVENT_PAGES - 1):
            page = await self._engine.read_events(
                Channel.COMPLETIONS, self._cursor, EVENT_PAGE, wanted=wanted
            )
            is_first, self._cursor = not self._cursor, page.cursor
            events += page.completions
            is_whole = is_whole and not page.trimmed
            if is_first or len(page.completions) < EVENT_PAGE:
                return events, is_whole
        page = await self._engine.read_events(Channel.COMPLETIONS, wanted=wanted)
        self._cursor = page.cursor
        return events, False

    async def _failing(self, namespace: str | None, now: int) -> _Failures:
        known, at = self._failures, self._clock()
        if known is not None and at - known.at_s < FAILURES_FOR_S:
            return known
        failed = await self._find(
            namespace, MAX_FAILED, state=_FAILED, ended_from=max(now - FAILING_MS, 0)
        )
        delayed = await self._find(namespace, MAX_FAILED, state=(PublicState.DELAYED,))
        self._failures = _Failures(at, failed, delayed)
        return self._failures

    async def _explanations(self, stalled: Sequence[Stalled]) -> dict[ExecutionId, Explanation]:
        """Explains a few at a time, those that were never explained or longest ago first."""
        at = self._clock()
        known = {
            each.execution_id: self._explained[each.execution_id]
            for each in stalled
            if each.execution_id in self._explained
            and self._explained[each.execution_id].stalled == each
        }
        wanted = [each for each in stalled if each.execution_id not in known]
        old = [each for each in known.values() if at - each.at_s >= EXPLAINED_FOR_S]
        wanted += [each.stalled for each in sorted(old, key=lambda each: each.at_s)]
        chosen = wanted[:EXPLAINED_AT_ONCE]
        answers = await asyncio.gather(*(self._explain(each.execution_id) for each in chosen))
        for each, answer in zip(chosen, answers, strict=True):
            known[each.execution_id] = _Explained(each, at, answer)
        self._explained = known
        return {
            ident: each.explanation for ident, each in known.items() if each.explanation is not None
        }

    async def _explain(self, ident: ExecutionId) -> Explanation | None:
        try:
            return await self._engine.explain_execution(ident)
        except NotFound:
            return None
