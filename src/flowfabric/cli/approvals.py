"""`flowfabric approvals`: the open waitpoints. It only reads the database."""

from __future__ import annotations

import json
from typing import Annotated
from uuid import UUID

import typer
from msgspec import Struct, structs
from rich.text import Text

from flowfabric.cli.database import Database
from flowfabric.cli.text import JsonLines, clean, plural, print_json, show
from flowfabric.engine.engine import Engine
from flowfabric.model.waitpoint import Count, CountKind, WaitpointListed
from flowfabric.rules.executions.explain_waits import THEN
from flowfabric.rules.waits import conditions
from flowfabric.store.port import GetAll, Row

READ_BATCH = 500
OPERATOR, TIME = "__operator_only__", "__timeout_only__"
NONE = "no open waitpoints"
PENDING = "no execution yet; it was created ahead"
_COUNTED = {
    CountKind.DISTINCT_WAITPOINTS: "waitpoints",
    CountKind.DISTINCT_SIGNALS: "signals",
    CountKind.DISTINCT_SOURCES: "sources",
}
_WAIT_COLUMNS = (
    *("execution_id", "reason_code", "condition", "satisfied_set"),
    *("timeout_at_ms", "timeout_behavior", "closed_at_ms"),
)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class OpenWaitpoint(Struct, frozen=True):
    """An open waitpoint with its execution, without the token."""

    execution_id: str
    waitpoint_id: str
    waitpoint_key: str
    state: str
    execution_kind: str
    lane_id: str
    reason_code: str
    required_signal_names: tuple[str, ...]
    counted: str
    age_ms: int
    expires_in_ms: int | None
    on_timeout: str
    token_kid: str
    token_fingerprint: str


def run(
    database: Database,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000, help="At most this many, the oldest first.")
    ] = 50,
    as_json: JsonLines = False,
) -> int:
    """Lists the open waitpoints with their executions, conditions and timeouts, without tokens."""
    found, more = database.read_store(lambda engine: open_waitpoints(engine, limit), "approvals")
    if not as_json:
        title = f"{plural(len(found), 'open waitpoint')}, oldest first" if found else NONE
        show(f"{title}; use --limit for more" if more else title)
    for each in found:
        if as_json:
            print_json(structs.asdict(each))
        else:
            show(*render(each))
    return 0


async def open_waitpoints(engine: Engine, limit: int) -> tuple[list[OpenWaitpoint], bool]:
    """The open waitpoints, oldest first, and whether there are more."""
    page = await engine.list_open_waitpoints(limit=limit)
    now, found = await engine.store.now_ms(), []
    for at in range(0, len(page.items), READ_BATCH):
        part: list[WaitpointListed] = page.items[at : at + READ_BATCH]
        keys = sorted({(w.execution_id.partition_index, w.execution_id.uuid) for w in part})
        reads = (
            GetAll("ff_exec_core", keys, ("execution_id", "execution_kind", "lane_id")),
            GetAll("ff_suspension_current", keys, _WAIT_COLUMNS),
        )
        rows = (await engine.store.load(reads)).rows
        work: dict[UUID, Row] = {row[0]: row[1:] for row in rows[0]}
        waits: dict[UUID, Row] = {row[0]: row[1:] for row in rows[1] if row[6] is None}
        found += [
            _open_waitpoint(w, work.get(w.execution_id.uuid), waits.get(w.execution_id.uuid), now)
            for w in part
        ]
    return found, page.next_cursor is not None


def _open_waitpoint(
    waitpoint: WaitpointListed, work: Row | None, waits: Row | None, now: int
) -> OpenWaitpoint:
    """Combine the rows of one waitpoint.

    The timeout of the suspension overrides that of the waitpoint: escalation to an operator may
    have removed it.
    """
    kind, lane = work or ("", "")
    reason, counted, until, then = "", "", waitpoint.expires_at, ""
    if waitpoint.state == "active" and waits is not None:
        reason, condition, satisfied, until, behaviour = waits[:5]
        counted = _progress(condition, satisfied)
        then = THEN.get(behaviour or "fail", THEN["fail"]) if until is not None else ""
    return OpenWaitpoint(
        str(waitpoint.execution_id),
        str(waitpoint.waitpoint_id),
        waitpoint.waitpoint_key,
        waitpoint.state,
        kind,
        lane,
        reason,
        waitpoint.required_signal_names,
        counted,
        max(now - waitpoint.created_at, 0),
        None if until is None else until - now,
        then,
        waitpoint.token_kid,
        waitpoint.token_fingerprint,
    )


def _progress(condition: str, satisfied: str) -> str:
    """The progress of a count condition; other conditions show their signal names only."""
    found = conditions.decode(condition)
    if not isinstance(found, Count):
        return ""
    return f"{len(json.loads(satisfied))} of {found.n} {_COUNTED[found.count_kind]}"


def render(each: OpenWaitpoint) -> list[Text]:
    title = Text.assemble(
        (clean(each.waitpoint_key), "bold"),
        f"  {clean(each.execution_kind)} on lane {clean(each.lane_id)}, "
        f"created {span(each.age_ms)} ago",
    )
    facts = [
        ("waits for", _waits_for(each)),
        ("expires", _expiry(each)),
        ("execution", each.execution_id),
        ("waitpoint", each.waitpoint_id),
        ("token", f"{clean(each.token_kid)}:{each.token_fingerprint}..."),
    ]
    return [Text(), title, *(Text(f"  {name:<9}  {value}") for name, value in facts)]


def _waits_for(each: OpenWaitpoint) -> str:
    if each.state != "active":
        return PENDING
    special = {OPERATOR: "an operator", TIME: "its timeout"}
    names = (
        " or ".join(special.get(name, clean(name)) for name in each.required_signal_names)
        or "any signal"
    )
    counted = f", {each.counted} so far" if each.counted else ""
    return f"{names}{counted} ({clean(each.reason_code)})"


def _expiry(each: OpenWaitpoint) -> str:
    if each.expires_in_ms is None:
        return "never"
    if each.expires_in_ms <= 0:
        return f"{span(-each.expires_in_ms)} ago; the next loop cycle ends it"
    return f"in {span(each.expires_in_ms)}" + (
        f", then it {each.on_timeout}" if each.on_timeout else ""
    )


def span(ms: int) -> str:
    """A duration in its largest whole unit: `3 min`."""
    seconds = ms // 1_000
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return "0 s"
