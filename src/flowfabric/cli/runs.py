"""`flowfabric list`, `show`, `result` and `status`. They only read."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated

import typer
from msgspec import to_builtins
from rich.text import Text

from flowfabric.cli import tables, text
from flowfabric.cli.database import Database
from flowfabric.cli.exits import CommandError, Exit
from flowfabric.cli.filters import Filters
from flowfabric.cli.identify import execution_of, not_found
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import ExecutionOutcome
from flowfabric.model.explanation import Explanation
from flowfabric.model.search import MAX_PAGE, ExecutionFilter, ExecutionSummary
from flowfabric.model.state import PublicState
from flowfabric.sdk.durations import millis

COLUMNS = ("id", "task", "lane", "state", "created", "attempts", "detail")
ENDED = ("completed", "failed", "cancelled", "expired", "skipped")
MAX_CHILDREN = 20
WAIT_MS = 20_000


def list_runs(
    filters: Filters,
    database: Database,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most this many.")] = 50,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    oldest: Annotated[bool, typer.Option("--oldest", help="The oldest first.")] = False,
    as_json: text.JsonLines = False,
) -> int:
    """Lists executions that match all filters, the newest first."""

    async def work(engine: EngineProtocol) -> None:
        where, count = await filters.resolve(engine), 0
        async for page in pages(engine, where, None if everything else limit, oldest=oldest):
            if as_json:
                for each in page:
                    text.print_json(to_json(each))
            else:
                now = await engine.server_time_ms()
                rows = (_row(each, now) for each in page)
                tables.print_table(COLUMNS, rows, header=not count)
            count += len(page)
        if not as_json:
            _print_end(count, limit=None if everything else limit)

    database.read(work)
    return Exit.DONE


async def pages(
    engine: EngineProtocol, where: ExecutionFilter, limit: int | None, *, oldest: bool = False
) -> AsyncIterator[list[ExecutionSummary]]:
    """Full pages of matches, up to the limit."""
    found: list[ExecutionSummary] = []
    cursor, left = None, limit
    while True:
        size = MAX_PAGE if left is None else min(left - len(found), MAX_PAGE)
        page = await engine.find_executions(where, size, cursor, oldest_first=oldest)
        found, cursor = found + page.items, page.next_cursor
        if cursor is None or len(found) >= MAX_PAGE or len(found) == left:
            if found:
                yield found
            left = None if left is None else left - len(found)
            found = []
            if cursor is None or left == 0:
                return


def _print_end(count: int, limit: int | None) -> None:
    if count == 0:
        text.show("no executions match")
    elif count == limit:
        text.show(f"the first {count}; --limit or --all shows more")


def _row(found: ExecutionSummary, now: int) -> tuple[tables.Cell, ...]:
    return (
        text.short(found.id),
        found.task,
        found.lane_id,
        tables.state_text(found.public_state),
        tables.ago(found.created_at, now),
        found.attempts,
        _detail(found, now),
    )


def _detail(found: ExecutionSummary, now: int) -> str:
    match found.public_state:
        case "failed" | "expired":
            return found.failure_reason or ""
        case "cancelled" | "skipped":
            return found.cancellation_reason or ""
        case "delayed" if found.delayed_until is not None:
            last = f" after {found.last_failure_message}" if found.last_failure_message else ""
            return f"in {tables.span(found.delayed_until - now)}{last}"
        case "active":
            percent = "" if found.progress_pct is None else f"{found.progress_pct} % "
            return f"{percent}{found.progress_message or ''}".strip()
    return "" if found.blocking_reason == "none" else found.blocking_reason.replace("_", " ")


def to_json(found: ExecutionSummary) -> dict[str, object]:
    return {
        "id": text.short(found.id),
        "execution_id": str(found.id),
        "namespace": found.namespace,
        "task": found.task,
        "lane": found.lane_id,
        "state": found.public_state,
        "priority": found.priority,
        "created_at": found.created_at,
        "started_at": found.started_at,
        "ended_at": found.ended_at,
        "delayed_until": found.delayed_until,
        "flow": None if found.flow_id is None else str(found.flow_id),
        "attempts": found.attempts,
        "retries": found.retries,
        "worker": found.worker_instance_id,
        "error": found.failure_reason,
        "last_error": found.last_failure_message,
        "cancellation_reason": found.cancellation_reason,
        "blocking_reason": None if found.blocking_reason == "none" else found.blocking_reason,
        "progress_pct": found.progress_pct,
        "progress_message": found.progress_message,
        "key": found.idempotency_key,
        "tags": found.tags,
    }


# ---- one execution


def show(execution: text.ExecutionArgument, database: Database, as_json: text.Json = False) -> int:
    """Shows an execution: state, times, attempts, tags, error, progress, flow, children, cause."""
    found, attempts, children, why = database.read(lambda engine: _facts(engine, execution))
    if as_json:
        listed = [to_builtins(each, enc_hook=str) for each in attempts]
        own = [text.short(each.id) for each in children]
        reasons = [{"code": each.code.value, "says": each.says} for each in why.reasons]
        text.print_json({**to_json(found), "attempt_list": listed, "children": own, "why": reasons})
        return Exit.DONE
    title = Text.assemble(
        (text.clean(found.task), "bold"),
        f"  on lane {text.clean(found.lane_id)}, namespace {text.clean(found.namespace)}: ",
        tables.state_text(found.public_state),
    )
    text.show(title, *(Text(f"  {name:<10}  {value}") for name, value in _lines(found, why)))
    if attempts:
        now = why.as_of_ms
        rows = (_attempt_row(each, now) for each in attempts)
        text.show(Text())
        columns = ("attempt", "state", "worker", "started", "took", "error")
        tables.print_table(columns, rows)
    if children:
        rows = (_row(each, why.as_of_ms) for each in children)
        text.show(Text(), Text("children", "bold"))
        tables.print_table(COLUMNS, rows)
    return Exit.DONE


async def _facts(
    engine: EngineProtocol, execution: str
) -> tuple[ExecutionSummary, list[Attempt], list[ExecutionSummary], Explanation]:
    ident = await execution_of(engine, execution)
    found = await engine.read_execution_summary(ident)
    if found is None:
        raise not_found("execution", execution)
    attempts = await engine.list_attempts(ident)
    children = await engine.find_executions(ExecutionFilter(parent=ident), MAX_CHILDREN)
    return found, attempts.items, children.items, await engine.explain_execution(ident)


def _lines(found: ExecutionSummary, why: Explanation) -> list[tuple[str, str]]:
    moments = (
        ("created", found.created_at),
        ("started", found.started_at),
        ("ended", found.ended_at),
        ("delayed to", found.delayed_until if found.public_state == "delayed" else None),
    )
    lines = [("id", text.short(found.id))]
    lines += [(name, text.utc(at)) for name, at in moments if at is not None]
    progress = " ".join(
        part
        for part in (
            "" if found.progress_pct is None else f"{found.progress_pct} %",
            found.progress_message or "",
        )
        if part
    )
    facts = (
        ("priority", str(found.priority) if found.priority else ""),
        ("key", found.idempotency_key or ""),
        ("flow", "" if found.flow_id is None else str(found.flow_id)),
        ("progress", progress),
        ("tags", ", ".join(f"{key}={value}" for key, value in found.tags.items())),
        ("error", (found.failure_reason or "") if found.public_state != "completed" else ""),
        ("why", "; then ".join(reason.says for reason in why.reasons)),
    )
    return lines + [(name, text.clean(value)) for name, value in facts if value]


def _attempt_row(each: Attempt, now: int) -> tuple[tables.Cell, ...]:
    end = each.terminal_at_ms or now
    return (
        each.attempt_index,
        each.outcome or each.attempt_state,
        each.worker_instance_id,
        "" if each.started_at_ms is None else text.utc(each.started_at_ms),
        "" if each.started_at_ms is None else tables.span(end - each.started_at_ms),
        each.failure_reason,
    )


def result(
    execution: text.ExecutionArgument,
    database: Database,
    wait: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Wait at most this long for the end.")
    ] = None,
    as_json: text.Json = False,
) -> int:
    """Prints the result of a completed execution; exit code 1 if it has none."""
    wait_ms = 0 if wait is None else millis(wait, "--wait")
    return print_result(execution, database, wait_ms, as_json)


def print_result(execution: str, database: Database, wait_ms: int, as_json: bool) -> int:
    ident, found = database.read(lambda engine: _outcome(engine, execution, wait_ms))
    if as_json:
        text.print_json(_outcome_json(ident, found))
    elif found.public_state == PublicState.COMPLETED:
        _print_payload(found.result)
    if found.public_state == PublicState.COMPLETED:
        return Exit.DONE
    raise CommandError(Exit.FAILED, _no_result(ident, found, database.option))


async def _outcome(
    engine: EngineProtocol, execution: str, wait_ms: int
) -> tuple[ExecutionId, ExecutionOutcome]:
    ident, left = await execution_of(engine, execution), wait_ms
    found = await engine.read_outcome(ident)
    while found is not None and left > 0 and found.public_state not in ENDED:
        found = await engine.wait_for_outcome(ident, min(left, WAIT_MS))
        left -= WAIT_MS
    if found is None:
        raise not_found("execution", execution)
    return ident, found


def _outcome_json(ident: ExecutionId, found: ExecutionOutcome) -> dict[str, object]:
    try:
        value = None if found.result is None else json.loads(found.result)
    except ValueError:
        value = found.result.hex() if found.result else None
    return {
        "id": text.short(ident),
        "state": found.public_state,
        "result": value,
        "error": found.failure_reason if found.public_state != PublicState.COMPLETED else None,
    }


def _print_payload(payload: bytes | None) -> None:
    """As it is stored; a terminal gets no control characters."""
    if not payload:
        return
    if sys.stdout.isatty():
        text.show(Text(text.clean_lines(payload.decode(errors="replace"))))
        return
    sys.stdout.buffer.write(payload + (b"" if payload.endswith(b"\n") else b"\n"))
    sys.stdout.buffer.flush()


def _no_result(ident: ExecutionId, found: ExecutionOutcome, option: str) -> str:
    state = str(found.public_state)
    if state not in ENDED:
        return f"the execution is {state}; why: flowfabric why {text.short(ident)}{option}"
    cause = found.failure_reason or found.cancellation_reason
    return f"the execution is {state}" + (f": {cause}" if cause else "")


# ---- counts


def status(
    database: Database,
    namespace: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this namespace.")
    ] = None,
    as_json: text.JsonLines = False,
) -> int:
    """Counts all executions by lane, task and state, at most two seconds old."""
    counted = database.read(lambda engine: engine.count_executions(namespace))
    if as_json:
        for each in counted.counts:
            text.print_json(to_builtins(each))
        return Exit.DONE
    cells: Counter[tuple[str, str, str, str]] = Counter()
    for each in counted.counts:
        cells[each.namespace, each.lane_id, each.task, each.public_state] += each.count
    states = [state for state in PublicState if any(key[3] == state for key in cells)]
    names = sorted({key[:3] for key in cells})
    rows: list[tuple[tables.Cell, ...]] = [
        (*name, *(cells[(*name, state)] for state in states)) for name in names
    ]
    totals = (sum(cells[(*name, state)] for name in names) for state in states)
    if not rows:
        text.show("no executions")
        return Exit.DONE
    columns = ("namespace", "lane", "task", *(state.value for state in states))
    tables.print_table(columns, [*rows, ("", "", "all", *totals)])
    return Exit.DONE
