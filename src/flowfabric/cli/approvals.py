"""`flowfabric approvals`: the open waitpoints. It only reads the database."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import structs
from rich.text import Text

from flowfabric.cli.database import Database
from flowfabric.cli.text import JsonLines, clean, plural, print_json, show
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.ids import ExecutionId
from flowfabric.model.approval import ApprovalListed

OPERATOR, TIME = "__operator_only__", "__timeout_only__"
NONE = "no open waitpoints"
PENDING = "no execution yet; it was created ahead"
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def run(
    database: Database,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000, help="At most this many, the oldest first.")
    ] = 50,
    as_json: JsonLines = False,
) -> int:
    """Lists the open waitpoints with their executions, conditions and timeouts, without tokens."""
    found, more = database.read(lambda engine: open_waitpoints(engine, limit))
    if not as_json:
        title = f"{plural(len(found), 'open waitpoint')}, oldest first" if found else NONE
        show(f"{title}; use --limit for more" if more else title)
    for each in found:
        if as_json:
            print_json(structs.asdict(each))
        else:
            show(*render(each))
    return 0


async def open_waitpoints(engine: EngineProtocol, limit: int) -> tuple[list[ApprovalListed], bool]:
    """The open waitpoints, oldest first, and whether there are more."""
    page = await engine.list_approvals(None, limit)
    return page.items, page.next_cursor is not None


def render(each: ApprovalListed) -> list[Text]:
    title = Text.assemble(
        (clean(each.waitpoint_key), "bold"),
        f"  {clean(each.execution_kind)} on lane {clean(each.lane_id)}, "
        f"created {span(each.age_ms)} ago",
    )
    facts = [
        ("waits for", _waits_for(each)),
        ("expires", _expiry(each)),
        ("execution", str(ExecutionId(each.execution_id).uuid)),
        ("waitpoint", each.waitpoint_id),
        ("token", f"{clean(each.token_kid)}:{each.token_fingerprint}..."),
    ]
    return [Text(), title, *(Text(f"  {name:<9}  {value}") for name, value in facts)]


def _waits_for(each: ApprovalListed) -> str:
    if each.state != "active":
        return PENDING
    special = {OPERATOR: "an operator", TIME: "its timeout"}
    names = (
        " or ".join(special.get(name, clean(name)) for name in each.required_signal_names)
        or "any signal"
    )
    counted = f", {each.counted} so far" if each.counted else ""
    return f"{names}{counted} ({clean(each.reason_code)})"


def _expiry(each: ApprovalListed) -> str:
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
