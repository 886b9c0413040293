"""A story from what is stored: rows become entries, in an order that never depends on how they were read.

Entries are ordered by time, then by what can follow what within a millisecond. Within one outbox the order of its numbers
is kept whatever the times say, so that each outbox is a rising sequence and can be read a page at a time.
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
"""When, its rank within the millisecond, about whom, from where, and which of those."""

LEASES, ENDINGS, SIGNALS, OPERATIONS, ROWS = range(5)
RANKS = {what: rank for rank, what in enumerate(What)}
FIRST = (0, 0)
MAX_NAMED = 10
_LET_GO = {
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
    "replayed": What.REPLAYED,
    "budget_breached": What.BUDGET_BREACHED,
    "flow_cancel_requested": What.FLOW_CANCEL_REQUESTED,
}
_WENT_ON = {"resumed": "operator", "timed_out_auto_resume": "timeout"}


class Line(Struct, frozen=True):
    """An entry in its place. `number` is the last event it stands for."""

    key: Key
    entry: HistoryEntry
    source: int
    number: int
    signal_id: UUID | None = None


class Place(Struct, frozen=True):
    """Where a page ended: the key of its last entry; of one execution, how far each outbox was told and which attempt ran."""

    key: Key
    told: tuple[int, ...] = (0, 0, 0, 0)
    attempt: int | None = None


class Chosen:
    """The first so many lines after a place, whatever order they come in. Holds twice as many at the most."""

    def __init__(self, limit: int, after: Key | None) -> None:
        self._limit, self._after = limit, after
        self._lines: list[Line] = []
        self._worst: Key | None = None

    def add(self, line: Line, *, new: bool = False) -> None:
        """`new` is known not to have been told, wherever its time would put it."""
        if not new and self._after is not None and line.key <= self._after:
            return
        if self.is_beyond(line.key):
            return
        self._lines.append(line)
        if len(self._lines) >= 2 * self._limit:
            self._cut()

    def is_beyond(self, key: Key) -> bool:
        """Behind everything that fits; so is whatever comes later in a rising sequence."""
        if self._worst is None and len(self._lines) >= self._limit:
            self._cut()
        return self._worst is not None and key > self._worst

    def lines(self) -> list[Line]:
        self._cut()
        return self._lines

    def _cut(self) -> None:
        self._lines.sort(key=lambda line: line.key)
        del self._lines[self._limit :]
        self._worst = self._lines[-1].key if len(self._lines) == self._limit else None


class Teller:
    """Tells the rows of one outbox of one execution, in the order of their numbers."""

    def __init__(
        self, life: Life, source: int, since: tuple[int, int] = FIRST, attempt: int | None = None
    ) -> None:
        self._life, self._source, self._since = life, source, since
        self._who = life.core.id
        self.attempt = attempt
        self._renewals: Line | None = None

    def tell(self, row: tuple[Any, ...]) -> Iterator[Line]:
        """The columns of each outbox are those named beside its reader."""
        match self._source:
            case 0:
                yield from self._lease(row)
            case 1:
                number, _, outcome, at = row
                yield self._line(number, at, *ending(self._life, outcome, at))
            case 2:
                number, _, signal, _, source, effect, at = row
                details: Details = {"effect": effect, **_said(source=source)}
                yield self._line(number, at, What.SIGNALLED, None, details, signal)
            case _:
                number, _, kind, said, at = row
                if kind in _OPERATIONS:
                    yield self._line(
                        number,
                        at,
                        _OPERATIONS[kind],
                        None,
                        {**_operation(said), **self._asked(kind)},
                    )

    def rest(self) -> Iterator[Line]:
        """Renewals that were being counted."""
        if self._renewals is not None:
            yield self._renewals
            self._renewals = None

    def _lease(self, row: tuple[Any, ...]) -> Iterator[Line]:
        number, _, lease, epoch, worker, kind, reason, at = row
        if kind in ("acquired", "reclaimed"):
            self.attempt = attempt_of(self._life.tries, epoch)
        what = _LEASE.get(kind) or _LET_GO.get(reason)
        if what is What.RENEWED:
            yield from self._renewed(number, at, epoch, worker, lease)
            return
        yield from self.rest()
        if what is not None:
            details = {**_said(worker=worker), **_held(epoch, lease), **self._why(what, at)}
            yield self._line(number, at, what, self.attempt, details)

    def _renewed(
        self, number: int, at: int, epoch: int, worker: str | None, lease: UUID | None
    ) -> Iterator[Line]:
        run = self._renewals
        if run is None or run.entry.details["epoch"] != epoch:
            yield from self.rest()
            details: Details = {
                **_said(worker=worker),
                **_held(epoch, lease),
                "count": 1,
                "last_ms": at,
            }
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
            pending = (
                core.attempt_state == "pending_retry_attempt" and core.attempt_index == self.attempt
            )
            return _said(reason=_failure(tried), next_ms=core.delay_until_ms if pending else None)
        return {}

    def _asked(self, kind: str) -> Details:
        """Who asked for the replay that was claimed last; of earlier ones it is not kept."""
        asked = self._life.tries[-1] if kind == "replayed" and self._life.tries else None
        return (
            {} if asked is None else _said(by=asked.replay_requested_by, reason=asked.replay_reason)
        )

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
        return Line(
            key, HistoryEntry(at, what, self._who, attempt, details), self._source, number, signal
        )


# ---- what is told of a row that is no event


def row_lines(life: Life) -> Iterator[Line]:
    """What is told once: its creation, how far it said it was, what it spent in all, and by whom it was let go on.

    An operator and a timeout leave no event when they let it go on; a signal does, and then that is told: see `once`.
    """
    core = life.core
    made = _said(
        by=core.creator_identity,
        lane=core.lane_id,
        kind=core.execution_kind,
        namespace=core.namespace,
    )
    until = core.delay_until_ms if not life.tries else None
    yield _row(
        core,
        0,
        core.created_at_ms,
        What.CREATED,
        {**made, "priority": core.priority, **_said(until_ms=until)},
    )
    if core.progress_updated_at is not None:
        said = _said(percent=core.progress_pct, message=core.progress_message)
        yield _row(core, 1, core.progress_updated_at, What.PROGRESSED, said)
    ends = {
        w.closed_at_ms: _WENT_ON[w.close_reason]
        for w in life.waits
        if w.closed_at_ms and w.close_reason in _WENT_ON
    }
    for at, by in ends.items():
        yield _row(core, 2, at, What.RESUMED, {"by": by})
    for number, charge in enumerate(life.charges, 3):
        spent: Details = {
            "budget": str(charge.budget_id),
            "dimension": charge.dimensions_key,
            "amount": charge.delta_total,
        }
        booked = (
            charge.updated_at_ms
            if core.terminal_at_ms is None
            else min(charge.updated_at_ms, core.terminal_at_ms)
        )
        yield _row(core, number, booked, What.SPENT, spent)


def flow_lines(flow: Flow) -> Iterator[Line]:
    """The flow's own beginning and end."""
    yield _flow_line(flow, 0, flow.created_at_ms, What.FLOW_CREATED, {"flow": str(flow.flow_id)})
    if flow.public_flow_state in TERMINAL_FLOW_STATES and flow.terminal_at_ms is not None:
        yield _flow_line(
            flow, 1, flow.terminal_at_ms, What.FLOW_ENDED, {"outcome": flow.public_flow_state}
        )


def flow_operation(flow: Flow, row: tuple[Any, ...]) -> Line | None:
    """What an operator asked of the flow."""
    number, _, kind, said, at = row
    if kind not in _OPERATIONS:
        return None
    line = _flow_line(flow, number, at, _OPERATIONS[kind], _operation(said))
    return structs.replace(line, key=(*line.key[:3], OPERATIONS, number), source=OPERATIONS)


def _flow_line(flow: Flow, number: int, at: int, what: What, details: Details) -> Line:
    return Line(
        (at, RANKS[what], str(flow.flow_id), ROWS, number),
        HistoryEntry(at, what, None, None, details),
        ROWS,
        number,
    )


def creation_key(who: ExecutionId, at: int) -> Key:
    return (at, RANKS[What.CREATED], str(who), ROWS, 0)


def _row(core: Core, number: int, at: int, what: What, details: Details) -> Line:
    return Line(
        (at, RANKS[what], str(core.id), ROWS, number),
        HistoryEntry(at, what, core.id, None, details),
        ROWS,
        number,
    )


# ---- reading rows


def ending(life: Life, outcome: str, at: int) -> tuple[What, int | None, Details]:
    """The last end is explained by the execution, earlier ones by the attempts that ended then."""
    if not is_end(outcome):
        return What.RESUMED, None, {}
    core = life.core
    tried = next((t for t in reversed(life.tries) if t.terminal_at_ms == at), None)
    index = None if tried is None else tried.attempt_index
    if core.terminal_at_ms != at:
        return What.ENDED, index, {"outcome": outcome, **_said(reason=_failure(tried))}
    reason = core.cancellation_reason if outcome == "cancelled" else core.failure_reason
    return What.ENDED, index, {"outcome": outcome, **_said(reason=reason, by=core.cancelled_by)}


def _failure(tried: Tried | None) -> str | None:
    return None if tried is None else tried.failure_reason


def suspended(life: Life, at: int) -> Details:
    """What it began to wait for: the latest that it had been told to wait for by then."""
    begun = [w for w in life.waits if w.activated_at_ms is not None and w.activated_at_ms <= at]
    latest: Awaited | None = max(begun, key=lambda w: w.activated_at_ms or 0, default=None)
    if latest is None:
        return {}
    keys = sorted(w.waitpoint_key for w in begun if w.suspension_id == latest.suspension_id)
    details: Details = {"waitpoints": clipped(", ".join(keys[:MAX_NAMED]))}
    parked = life.parked
    if parked is not None and parked.suspension_id == latest.suspension_id:
        details |= _said(reason=parked.reason_code, until_ms=parked.timeout_at_ms)
    return details


def attempt_of(tries: Sequence[Tried], epoch: int | None) -> int | None:
    """An attempt keeps the last epoch it was held under, and epochs only rise."""
    if epoch is None:
        return None
    return next((t.attempt_index for t in tries if t.lease_epoch >= epoch), None)


def named(line: Line, name: str) -> HistoryEntry:
    """A signal with its name, which its event does not carry."""
    details = {**line.entry.details, **_said(signal=name)}
    return structs.replace(line.entry, details=details)


def once(page: Sequence[Line], before: Key | None) -> list[Line]:
    """Without the waits whose end an event tells of already."""
    told = {line.key[:3] for line in page if line.source == ENDINGS} | (
        {before[:3]} if before is not None else set()
    )
    return [
        line
        for line in page
        if not (line.entry.what is What.RESUMED and line.source == ROWS and line.key[:3] in told)
    ]


def place_of(page: Sequence[Line], before: Place | None, attempt: int | None) -> Place:
    """Where the page ends."""
    told = list(before.told if before is not None else Place(page[-1].key).told)
    for line in page:
        if line.source != ROWS:
            told[line.source] = max(told[line.source], line.number)
    key = page[-1].key if before is None else max(page[-1].key, before.key)
    return Place(key, tuple(told), attempt)


def last_attempt(page: Sequence[Line], before: int | None) -> int | None:
    """The attempt that the leases told so far speak of."""
    return next(
        (line.entry.attempt_index for line in reversed(page) if line.source == LEASES), before
    )


def _operation(said: str | None) -> Details:
    """Numbers and texts of the details an operator's event carries."""
    found = json.loads(said) if said else {}
    return {
        str(name): clipped(value) if isinstance(value, str) else value
        for name, value in found.items()
        if isinstance(value, str | int)
    }


def _held(epoch: int | None, lease: UUID | None) -> Details:
    mark = lease_mark(lease)
    return _said(epoch=epoch, lease=None if mark is None else str(mark))


def _said(**facts: str | int | None) -> Details:
    """What is known, kept short."""
    known = {name: clipped(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
    return {name: fact for name, fact in known.items() if fact is not None and fact != ""}


def about(page: Sequence[Line]) -> list[tuple[ExecutionId, UUID]]:
    """The signals of a page, by whom they were sent to."""
    return [
        (who, line.signal_id)
        for line in page
        if line.signal_id is not None and (who := line.entry.execution_id) is not None
    ]
