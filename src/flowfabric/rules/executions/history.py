"""The history of an execution or a flow: stored rows become entries, in an order of their own.

Entries are ordered by time, then by the order in which they can happen within a millisecond.
The entries of one outbox keep the order of their event numbers whatever their times are, so each
outbox is a rising sequence that can be read in pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from flowfabric.ids import ExecutionId, lease_mark
from flowfabric.model.event import is_end
from flowfabric.model.flow import TERMINAL_FLOW_STATES, Flow
from flowfabric.model.history import Awaited, Core, HistoryEntry, Life, Tried, What
from flowfabric.rules.executions.phrasing import clipped

Details = dict[str, str | int]
Key = tuple[int, int, str, int, int]
"""Time, rank within the millisecond, subject, source, and number within the source."""

LEASES, ENDINGS, SIGNALS, OPERATIONS, ROWS = range(5)
RANKS = {what: rank for rank, what in enumerate(What)}
FIRST = (0, 0)
MAX_NAMED = 10
_RELEASES = {
    "suspended": What.SUSPENDED,
    "delayed": What.DELAYED,
    "retry": What.RETRIED,
    "waiting_children": What.WAITED,
    "budget": What.HELD_BACK,
    "lease_revoked": What.REVOKED,
}
_LEASE = {
    "acquired": What.CLAIMED,
    "reclaimed": What.RECLAIMED,
    "renewed": What.RENEWED,
    "expired": What.LEASE_EXPIRED,
}
_OPERATIONS = {
    "priority_changed": What.PRIORITY_CHANGED,
    "moved": What.MOVED,
    "released": What.RELEASED,
    "cancelled": What.CANCEL_REQUESTED,
    "replayed": What.REPLAYED,
    "budget_breached": What.BUDGET_BREACHED,
    "flow_cancel_requested": What.FLOW_CANCEL_REQUESTED,
}
_RESUMED_BY = {"resumed": "operator", "timed_out_auto_resume": "timeout"}


class Line(Struct, frozen=True):
    """An entry and its position. `number` is that of its last event."""

    key: Key
    entry: HistoryEntry
    number: int
    signal_id: UUID | None = None

    @property
    def source(self) -> int:
        return self.key[3]


class PageEnd(Struct, frozen=True):
    """The end of a page: its last key and, for one execution, the last number of each outbox.

    `attempt` is the attempt that the leases on the page name last.
    """

    key: Key
    numbers: tuple[int, ...] = (0, 0, 0, 0)
    attempt: int | None = None


class FirstLines:
    """The first `limit` lines after a key, in any order of arrival. Holds twice as many at most."""

    def __init__(self, limit: int, after: Key | None) -> None:
        self.limit, self._after = limit, after
        self.kept: list[Line] = []
        self._worst: Key | None = None

    def add(self, line: Line, *, new: bool = False) -> None:
        """`new`: the line was on no earlier page, even if its key lies before the end of one."""
        if not new and self._after is not None and line.key <= self._after:
            return
        if self.is_beyond(line.key):
            return
        self.kept.append(line)
        if len(self.kept) >= 2 * self.limit:
            self._cut()

    def is_beyond(self, key: Key) -> bool:
        """Whether the key is past the page. All later keys of a rising sequence are, too."""
        if self._worst is None and len(self.kept) >= self.limit:
            self._cut()
        return self._worst is not None and key > self._worst

    def lines(self) -> list[Line]:
        self._cut()
        return self.kept

    def _cut(self) -> None:
        self.kept.sort(key=lambda line: line.key)
        del self.kept[self.limit :]
        self._worst = self.kept[-1].key if len(self.kept) == self.limit else None


class EventReader:
    """Turns the rows of one outbox of one execution into lines, in the order of their numbers."""

    def __init__(
        self, life: Life, source: int, since: tuple[int, int] = FIRST, attempt: int | None = None
    ) -> None:
        self._life, self._source, self._since = life, source, since
        self._who = life.core.id
        self.attempt = attempt
        self._renewals: Line | None = None

    def read(self, row: tuple[Any, ...]) -> Iterator[Line]:
        """The engine names the columns of each outbox beside its scan."""
        match self._source:
            case 0:
                yield from self._lease(row)
            case 1:
                number, _, outcome, at = row
                yield self._line(number, at, *ending(self._life, outcome, at))
            case 2:
                number, _, signal, _, source, effect, at = row
                details: Details = {"effect": effect, **_known(source=source)}
                yield self._line(number, at, What.SIGNALLED, None, details, signal)
            case _:
                number, _, kind, stored, at = row
                if kind in _OPERATIONS:
                    known = _operation(stored)
                    details = known if "by" in known else {**known, **self._requester(kind)}
                    yield self._line(number, at, _OPERATIONS[kind], None, details)

    def flush(self) -> Iterator[Line]:
        """The entry of the renewals counted so far."""
        if self._renewals is not None:
            yield self._renewals
            self._renewals = None

    def _lease(self, row: tuple[Any, ...]) -> Iterator[Line]:
        number, _, lease, epoch, worker, kind, reason, at = row
        if kind in ("acquired", "reclaimed"):
            self.attempt = attempt_of(self._life.tries, epoch)
        what = _LEASE.get(kind) or _RELEASES.get(reason)
        if what is What.RENEWED:
            yield from self._renewed(number, at, epoch, worker, lease)
            return
        yield from self.flush()
        if what is not None:
            details = {**_known(worker=worker), **_held(epoch, lease), **self._why(what, at)}
            yield self._line(number, at, what, self.attempt, details)

    def _renewed(
        self, number: int, at: int, epoch: int, worker: str | None, lease: UUID | None
    ) -> Iterator[Line]:
        run = self._renewals
        if run is None or run.entry.details["epoch"] != epoch:
            yield from self.flush()
            held = {**_known(worker=worker), **_held(epoch, lease)}
            details: Details = {**held, "count": 1, "last_ms": at}
            self._renewals = self._line(number, at, What.RENEWED, self.attempt, details)
            return
        details = {**run.entry.details, "count": int(run.entry.details["count"]) + 1, "last_ms": at}
        self._renewals = structs.replace(
            run, entry=structs.replace(run.entry, details=details), number=number
        )

    def _why(self, what: What, at: int) -> Details:
        if what is What.SUSPENDED:
            return suspended(self._life, at)
        core = self._life.core
        if what is What.RETRIED:
            tried = next((t for t in self._life.tries if t.attempt_index == self.attempt), None)
            pending = (core.attempt_state, core.attempt_index)
            is_next = pending == ("pending_retry_attempt", self.attempt)
            return _known(reason=_failure(tried), next_ms=core.delay_until_ms if is_next else None)
        return {}

    def _requester(self, kind: str) -> Details:
        """Who requested the replay that was claimed last. Earlier requests are not stored."""
        if kind != "replayed" or not self._life.tries:
            return {}
        last = self._life.tries[-1]
        return _known(by=last.replay_requested_by, reason=last.replay_reason)

    def _line(
        self,
        number: int,
        at: int,
        what: What,
        attempt: int | None,
        details: Details,
        signal: UUID | None = None,
    ) -> Line:
        self._since = max(self._since, (at, RANKS[what]))
        key = (*self._since, str(self._who), self._source, number)
        return Line(key, HistoryEntry(at, what, self._who, attempt, details), number, signal)


def creation_line(core: Core, *, claimed: bool) -> Line:
    """The creation of an execution. Its delay is that of its start until it is claimed."""
    by, lane, kind = core.creator_identity, core.lane_id, core.execution_kind
    made = _known(by=by, lane=lane, kind=kind, namespace=core.namespace)
    delay = _known(until_ms=None if claimed else core.delay_until_ms)
    created = {**made, "priority": core.priority, **delay}
    return _row(core, 0, core.created_at_ms, What.CREATED, created)


def row_lines(life: Life) -> Iterator[Line]:
    """The entries of an execution that are not events."""
    yield creation_line(life.core, claimed=bool(life.tries))
    yield from later_lines(life)


def later_lines(life: Life) -> Iterator[Line]:
    """The progress of an execution, its resumes, and its charges.

    A resume by an operator or a timeout writes no event. A resume by a signal does, and then its
    row is dropped: see `without_repeats`.
    """
    core = life.core
    if core.progress_updated_at is not None:
        progress = _known(percent=core.progress_pct, message=core.progress_message)
        yield _row(core, 1, core.progress_updated_at, What.PROGRESSED, progress)
    ends = {
        w.closed_at_ms: _RESUMED_BY[w.close_reason]
        for w in life.waits
        if w.closed_at_ms and w.close_reason in _RESUMED_BY
    }
    for at, by in ends.items():
        yield _row(core, 2, at, What.RESUMED, {"by": by})
    for number, charge in enumerate(life.charges, 3):
        spent: Details = {
            "budget": str(charge.budget_id),
            "dimension": charge.dimensions_key,
            "amount": charge.delta_total,
        }
        ended = core.terminal_at_ms
        at = charge.updated_at_ms if ended is None else min(charge.updated_at_ms, ended)
        yield _row(core, number, at, What.SPENT, spent)


def flow_lines(flow: Flow) -> Iterator[Line]:
    """The creation and the end of the flow."""
    yield _flow_line(flow, 0, flow.created_at_ms, What.FLOW_CREATED, {"flow": str(flow.flow_id)})
    if flow.public_flow_state in TERMINAL_FLOW_STATES and flow.terminal_at_ms is not None:
        outcome: Details = {"outcome": flow.public_flow_state}
        yield _flow_line(flow, 1, flow.terminal_at_ms, What.FLOW_ENDED, outcome)


def flow_operation(flow: Flow, row: tuple[Any, ...]) -> Line | None:
    """An operator event of the flow."""
    number, _, kind, stored, at = row
    if kind not in _OPERATIONS:
        return None
    return _flow_line(flow, number, at, _OPERATIONS[kind], _operation(stored), OPERATIONS)


def _flow_line(
    flow: Flow, number: int, at: int, what: What, details: Details, source: int = ROWS
) -> Line:
    key = (at, RANKS[what], str(flow.flow_id), source, number)
    return Line(key, HistoryEntry(at, what, None, None, details), number)


def creation_key(who: ExecutionId, at: int) -> Key:
    return (at, RANKS[What.CREATED], str(who), ROWS, 0)


def _row(core: Core, number: int, at: int, what: What, details: Details) -> Line:
    key = (at, RANKS[what], str(core.id), ROWS, number)
    return Line(key, HistoryEntry(at, what, core.id, None, details), number)


def ending(life: Life, outcome: str, at: int) -> tuple[What, int | None, Details]:
    """The execution holds the reason of its last end; attempts hold those of earlier ends."""
    if not is_end(outcome):
        return What.RESUMED, None, {}
    core = life.core
    tried = next((t for t in reversed(life.tries) if t.terminal_at_ms == at), None)
    index = None if tried is None else tried.attempt_index
    if core.terminal_at_ms != at:
        return What.ENDED, index, {"outcome": outcome, **_known(reason=_failure(tried))}
    reason = core.cancellation_reason if outcome == "cancelled" else core.failure_reason
    return What.ENDED, index, {"outcome": outcome, **_known(reason=reason, by=core.cancelled_by)}


def _failure(tried: Tried | None) -> str | None:
    return None if tried is None else tried.failure_reason


def suspended(life: Life, at: int) -> Details:
    """The waitpoints of the latest suspension that had started by then."""
    started = [w for w in life.waits if w.activated_at_ms is not None and w.activated_at_ms <= at]
    latest: Awaited | None = max(started, key=lambda w: w.activated_at_ms or 0, default=None)
    if latest is None:
        return {}
    keys = sorted(w.waitpoint_key for w in started if w.suspension_id == latest.suspension_id)
    details: Details = {"waitpoints": clipped(", ".join(keys[:MAX_NAMED]))}
    parked = life.parked
    if parked is not None and parked.suspension_id == latest.suspension_id:
        details |= _known(reason=parked.reason_code, until_ms=parked.timeout_at_ms)
    return details


def attempt_of(tries: Sequence[Tried], epoch: int | None) -> int | None:
    """The attempt of an epoch. An attempt stores its last epoch, and epochs only rise."""
    if epoch is None:
        return None
    return next((t.attempt_index for t in tries if t.lease_epoch >= epoch), None)


def with_signal_name(line: Line, name: str) -> HistoryEntry:
    """A signal event does not carry the name of the signal."""
    return structs.replace(line.entry, details={**line.entry.details, **_known(signal=name)})


def without_repeats(page: Sequence[Line], before: Key | None) -> list[Line]:
    """The page without the resumes that are also events."""
    events = {line.key[:3] for line in page if line.source == ENDINGS}
    if before is not None:
        events.add(before[:3])

    def repeats(line: Line) -> bool:
        resumed = line.entry.what is What.RESUMED and line.source == ROWS
        return resumed and line.key[:3] in events

    return [line for line in page if not repeats(line)]


def page_end(page: Sequence[Line], before: PageEnd | None, attempt: int | None) -> PageEnd:
    start = PageEnd(page[-1].key) if before is None else before
    numbers = list(start.numbers)
    for line in page:
        if line.source != ROWS:
            numbers[line.source] = max(numbers[line.source], line.number)
    return PageEnd(max(page[-1].key, start.key), tuple(numbers), attempt)


def last_attempt(page: Sequence[Line], before: int | None) -> int | None:
    """The attempt of the last lease event on the page, else that of the page before."""
    attempts = (line.entry.attempt_index for line in reversed(page) if line.source == LEASES)
    return next(attempts, before)


def _operation(stored: str | None) -> Details:
    """The numbers and texts among the details of an operator event."""
    found = json.loads(stored) if stored else {}
    return _clip({str(n): value for n, value in found.items() if isinstance(value, str | int)})


def _held(epoch: int | None, lease: UUID | None) -> Details:
    mark = lease_mark(lease)
    return _known(epoch=epoch, lease=None if mark is None else str(mark))


def _known(**facts: str | int | None) -> Details:
    """The facts that are present, with clipped texts."""
    return _clip({name: fact for name, fact in facts.items() if fact is not None and fact != ""})


def _clip(facts: Details) -> Details:
    return {n: clipped(fact) if isinstance(fact, str) else fact for n, fact in facts.items()}


def signals_of(page: Sequence[Line]) -> list[tuple[ExecutionId, UUID]]:
    """The signals of a page, each with its execution."""
    return [
        (who, line.signal_id)
        for line in page
        if line.signal_id is not None and (who := line.entry.execution_id) is not None
    ]
