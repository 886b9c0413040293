"""`flowfabric approvals`: what people and systems are being asked, from a database that is only read."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID

from msgspec import Struct, structs
from rich.console import Console
from rich.text import Text

from flowfabric.cli.database import looking
from flowfabric.cli.flow_view import clean
from flowfabric.engine.engine import Engine
from flowfabric.model.waitpoint import Count, CountKind, WaitpointListed
from flowfabric.rules.executions.explain_waits import THEN
from flowfabric.rules.waits import conditions
from flowfabric.store.port import GetAll, Row

READ_AT_ONCE = 500
OPERATOR, TIME = "__operator_only__", "__timeout_only__"
AHEAD = "created ahead, nothing waits on it yet"
_COUNTED = {
    CountKind.DISTINCT_WAITPOINTS: "waitpoints",
    CountKind.DISTINCT_SIGNALS: "signals",
    CountKind.DISTINCT_SOURCES: "sources",
}
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class Asked(Struct, frozen=True):
    """An open waitpoint with the execution that waits. The token is not part of it."""

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


def run(url: str, limit: int, console: Console, *, as_json: bool) -> int:
    found, more = asyncio.run(looking(url, lambda engine: asked(engine, limit)))
    if as_json:
        for each in found:
            console.file.write(json.dumps(structs.asdict(each)) + "\n")
        return 0
    if not found:
        console.print("nobody is being asked: no waitpoint is open", highlight=False)
        return 0
    says = (
        "1 waitpoint is open"
        if len(found) == 1
        else f"{len(found)} waitpoints are open, the oldest first"
    )
    console.print(
        f"the oldest {len(found)} open waitpoints; --limit shows more" if more else says,
        highlight=False,
    )
    for each in found:
        for line in shown(each):
            console.print(line, highlight=False, soft_wrap=True)
    return 0


async def asked(engine: Engine, limit: int) -> tuple[list[Asked], bool]:
    """The open waitpoints, the oldest first, and whether there are more."""
    page = await engine.list_open_waitpoints(limit=limit)
    now, found = await engine.store.now_ms(), []
    for at in range(0, len(page.items), READ_AT_ONCE):
        part: list[WaitpointListed] = page.items[at : at + READ_AT_ONCE]
        keys = sorted({(w.execution_id.partition_index, w.execution_id.uuid) for w in part})
        columns = (
            "execution_id",
            "reason_code",
            "condition",
            "satisfied_set",
            "timeout_at_ms",
            "timeout_behavior",
            "closed_at_ms",
        )
        reads = (
            GetAll("ff_exec_core", keys, ("execution_id", "execution_kind", "lane_id")),
            GetAll("ff_suspension_current", keys, columns),
        )
        rows = (await engine.store.load(reads)).rows
        work: dict[UUID, Row] = {row[0]: row[1:] for row in rows[0]}
        waits: dict[UUID, Row] = {row[0]: row[1:] for row in rows[1] if row[6] is None}
        found += [
            _asked(w, work.get(w.execution_id.uuid), waits.get(w.execution_id.uuid), now)
            for w in part
        ]
    return found, page.next_cursor is not None


def _asked(waitpoint: WaitpointListed, work: Row | None, waits: Row | None, now: int) -> Asked:
    """A suspension knows better than its waitpoint when it ends: an operator may have been asked to look at it since."""
    kind, lane = work or ("", "")
    reason, counted, until, then = "", "", waitpoint.expires_at, ""
    if waitpoint.state == "active" and waits is not None:
        reason, condition, satisfied, until, behaviour = waits[:5]
        counted = _progress(condition, satisfied)
        then = THEN.get(behaviour or "fail", THEN["fail"]) if until is not None else ""
    return Asked(
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
    """How far a count has come; other conditions are told by their names alone."""
    found = conditions.decode(condition)
    if not isinstance(found, Count):
        return ""
    return f"{len(json.loads(satisfied))} of {found.n} {_COUNTED[found.count_kind]}"


def shown(each: Asked) -> list[Text]:
    title = Text.assemble(
        (clean(each.waitpoint_key), "bold"),
        f"  {clean(each.execution_kind)} on lane {clean(each.lane_id)}, asked {span(each.age_ms)} ago",
    )
    facts = [
        ("waits for", _wanted(each)),
        ("expires", _expiry(each)),
        ("execution", each.execution_id),
        ("waitpoint", each.waitpoint_id),
        ("token", f"{clean(each.token_kid)}:{each.token_fingerprint}..."),
    ]
    return [Text(), title, *(Text(f"  {name:<9}  {said}") for name, said in facts)]


def _wanted(each: Asked) -> str:
    if each.state != "active":
        return AHEAD
    special = {OPERATOR: "an operator", TIME: "its time"}
    names = (
        " or ".join(special.get(name, clean(name)) for name in each.required_signal_names)
        or "any signal"
    )
    counted = f", {each.counted} so far" if each.counted else ""
    return f"{names}{counted} ({clean(each.reason_code)})"


def _expiry(each: Asked) -> str:
    if each.expires_in_ms is None:
        return "never"
    if each.expires_in_ms <= 0:
        return f"{span(-each.expires_in_ms)} ago, to be seen to by the loops"
    return f"in {span(each.expires_in_ms)}" + (
        f", then it {each.on_timeout}" if each.on_timeout else ""
    )


def span(ms: int) -> str:
    """The largest whole unit: `3 min`."""
    seconds = ms // 1_000
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return "0 s"
