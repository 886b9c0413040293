"""The panels of `flowfabric top` as tables of cleaned text, whatever draws them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from flowfabric.cli.history import span
from flowfabric.cli.text import clean, short, utc
from flowfabric.cli.top.model import Overview, Rates
from flowfabric.ids import ExecutionId
from flowfabric.model.search import ExecutionSummary
from flowfabric.model.state import LaneState

GOOD, BAD, WAITS, DIM, PLAIN = "green", "red", "yellow", "dim", ""
OLD_MS, OVERDUE_MS = 60_000, 5_000
FULL, NEARLY_FULL = 1.0, 0.8
_BARS = " ▁▂▃▄▅▆▇█"
STATE_STYLES = {
    "active": GOOD,
    "completed": GOOD,
    "failed": BAD,
    "expired": BAD,
    "rate_limited": WAITS,
    "suspended": WAITS,
    "delayed": WAITS,
    "cancelled": DIM,
    "skipped": DIM,
}
_LANE_STYLES: dict[str, str] = {LaneState.ACTIVE: DIM, LaneState.DISABLED: BAD}


class Kind(StrEnum):
    LANE = "lane"
    RUN = "run"
    FAILURE = "failure"
    WORKER = "worker"
    OTHER = "other"


class Target(Struct, frozen=True):
    """The subject of a row. `error` is that of a failure, whose `name` is the task."""

    kind: Kind
    name: str
    execution: ExecutionId | None = None
    error: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.name}/{self.error}"


class Cell(Struct, frozen=True):
    text: str
    style: str = PLAIN


class Column(Struct, frozen=True):
    title: str
    is_number: bool = False


class Row(Struct, frozen=True):
    target: Target
    cells: tuple[Cell, ...]

    def has(self, text: str) -> bool:
        wanted = text.casefold()
        return any(wanted in cell.text.casefold() for cell in self.cells)


class Panel(Struct, frozen=True):
    """`nothing` is shown in place of rows."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    nothing: str


def _columns(*titles: str) -> tuple[Column, ...]:
    """A title that begins with `#` is that of a number."""
    return tuple(Column(title.removeprefix("#"), title.startswith("#")) for title in titles)


def _text(text: str, style: str = PLAIN) -> Cell:
    return Cell(clean(text), style)


def _count(number: int, style: str = PLAIN) -> Cell:
    return Cell(f"{number:,}" if number else "-", style if number else DIM)


def _age(ms: int | None, old_ms: int = OLD_MS, style: str = WAITS) -> Cell:
    if ms is None:
        return Cell("-", DIM)
    return Cell(span(ms), style if ms >= old_ms else PLAIN)


def _run(ident: ExecutionId) -> Target:
    return Target(Kind.RUN, short(ident), ident)


def panels(found: Overview) -> dict[str, Panel]:
    made = (lanes, running, failing, stuck, workers, budgets, timers)
    return {panel.name: panel for panel in (make(found) for make in made)}


def filtered(panel: Panel, text: str) -> Panel:
    """The rows with this text in one of their cells."""
    rows = tuple(row for row in panel.rows if row.has(text)) if text else panel.rows
    return Panel(panel.name, panel.title, panel.columns, rows, panel.nothing)


def lanes(found: Overview) -> Panel:
    columns = _columns(
        "lane", "state", "#waiting", "#oldest", "#active", "#delayed", "#blocked", "#susp."
    )
    rows = tuple(
        Row(
            Target(Kind.LANE, each.lane),
            (
                _text(each.lane),
                _text(each.state, _LANE_STYLES.get(each.state, WAITS)),
                _count(each.waiting),
                _age(each.oldest_ms) if each.waiting else Cell("-", DIM),
                _count(each.active, GOOD),
                _count(each.delayed),
                _count(each.blocked, WAITS),
                _count(each.suspended),
            ),
        )
        for each in found.lanes
    )
    return Panel("lanes", "Lanes", columns, rows, "no lane is registered")


def running(found: Overview) -> Panel:
    columns = _columns("task", "lane", "worker", "#for", "#lease left", "#try", "progress", "run")
    rows = tuple(
        Row(
            _run(each.execution_id),
            (
                _text(each.task),
                _text(each.lane),
                _text(each.worker),
                _age(each.since_ms, 10 * OLD_MS),
                _lease(each.lease_left_ms),
                _count(each.attempts, WAITS if each.attempts > 1 else PLAIN),
                _text(_progress(each.progress_pct, each.progress)),
                Cell(short(each.execution_id), DIM),
            ),
        )
        for each in found.runs
    )
    return Panel("running", "Running", columns, rows, "nothing is running")


def _lease(left_ms: int | None) -> Cell:
    if left_ms is None:
        return Cell("-", DIM)
    return Cell(span(left_ms)) if left_ms >= 0 else Cell(f"over by {span(-left_ms)}", BAD)


def _progress(percent: int | None, message: str) -> str:
    return " ".join(
        part for part in (f"{percent}%" if percent is not None else "", message) if part
    )


def failing(found: Overview) -> Panel:
    columns = _columns("task", "error", "#failed", "#retrying", "#last")
    rows = tuple(
        Row(
            Target(Kind.FAILURE, each.task, each.last, each.error),
            (
                _text(each.task),
                _text(each.error, BAD if each.failed else WAITS),
                _count(each.failed, BAD),
                _count(each.retrying, WAITS),
                Cell("-", DIM) if each.last_at is None else _ago(found.as_of - each.last_at),
            ),
        )
        for each in found.failing
    )
    return Panel("failing", "Failing, last 10 min", columns, rows, "nothing fails")


def _ago(ms: int) -> Cell:
    return Cell(f"{span(max(ms, 0))} ago")


def stuck(found: Overview) -> Panel:
    columns = _columns("task", "lane", "#for", "reason", "run")
    rows = tuple(
        Row(
            _run(each.execution_id),
            (
                _text(each.task),
                _text(each.lane),
                _age(each.for_ms),
                _text(each.says or each.state, WAITS),
                Cell(short(each.execution_id), DIM),
            ),
        )
        for each in found.stuck
    )
    return Panel("stuck", "Stuck", columns, rows, "nothing waits for longer than 30 s")


def workers(found: Overview) -> Panel:
    columns = _columns("worker", "lanes", "#holds", "tasks", "#heartbeat")
    rows = tuple(
        Row(
            Target(Kind.WORKER, each.instance),
            (
                _text(each.instance),
                _text(", ".join(each.lanes)),
                _count(each.held, GOOD),
                _text(", ".join(f"{task} {count}" for task, count in each.tasks.items())),
                _ago(each.heartbeat_age_ms),
            ),
        )
        for each in found.workers
    )
    return Panel("workers", "Workers", columns, rows, "no worker is alive")


def budgets(found: Overview) -> Panel:
    columns = _columns("budget", "dimension", "#used", "#limit", "", "#resets in")
    rows = tuple(
        Row(
            Target(Kind.OTHER, f"{each.budget_id}/{each.dimension}"),
            (
                _text(each.name or str(each.budget_id)),
                _text(each.dimension),
                Cell(f"{each.used:,}"),
                Cell(f"{each.limit:,}{'' if each.is_hard else ' soft'}"),
                _share(each.used / each.limit),
                _age(each.resets_at and max(each.resets_at - found.as_of, 0), 2**62),
            ),
        )
        for each in found.budgets
    )
    return Panel("budgets", "Budgets", columns, rows, "no budget has a limit")


def _share(share: float) -> Cell:
    style = BAD if share >= FULL else WAITS if share >= NEARLY_FULL else GOOD
    width = 10
    filled = min(round(share * width), width)
    return Cell(f"{'█' * filled}{'░' * (width - filled)} {share:4.0%}", style)


def timers(found: Overview) -> Panel:
    columns = _columns("overdue timers", "#count", "#oldest by")
    rows = tuple(
        Row(
            Target(Kind.OTHER, each.kind),
            (
                _text(each.kind),
                _count(each.count),
                _age(each.oldest_ms, OVERDUE_MS, BAD),
            ),
        )
        for each in found.timers
    )
    return Panel("timers", "Timers", columns, rows, "no timer is overdue")


def runs_of(found: Iterable[ExecutionSummary], now_ms: int) -> Panel:
    """The executions behind a lane, a failure or a worker."""
    columns = _columns("run", "task", "state", "#created", "#tries", "worker", "error")
    rows = tuple(
        Row(
            _run(each.id),
            (
                Cell(short(each.id)),
                _text(each.task),
                _text(each.public_state, STATE_STYLES.get(each.public_state, PLAIN)),
                _ago(now_ms - each.created_at),
                _count(each.attempts),
                _text(each.worker_instance_id or ""),
                _text(each.failure_reason or each.last_failure_message or "", BAD),
            ),
        )
        for each in found
    )
    return Panel("runs", "Runs", columns, rows, "no execution matches")


def rate_cells(found: Rates) -> Mapping[str, Cell]:
    """The rates by name, for one line."""
    about = "~" if found.is_sampled else ""
    ended = {word: rate for word, rate in found.ended.items() if word != "other" or rate}
    styles = {"completed": GOOD, "failed": BAD, "cancelled": DIM}
    cells = {"created": Cell(f"{found.created:,.1f}/s")}
    for word, rate in ended.items():
        cells[word] = Cell(f"{about}{rate:,.1f}/s", styles.get(word, PLAIN) if rate else DIM)
    return cells


def sparkline(values: Sequence[float], width: int) -> str:
    """The last values as bars, the highest one full."""
    shown = values[-width:]
    highest = max(shown, default=0.0)
    if highest <= 0:
        return " " * len(shown)
    top = len(_BARS) - 1
    return "".join(_BARS[min(max(round(each / highest * top), bool(each)), top)] for each in shown)


def title_of(found: Overview) -> str:
    where = "all namespaces" if found.namespace is None else f"namespace {clean(found.namespace)}"
    return f"{where} at {utc(found.as_of)}"
