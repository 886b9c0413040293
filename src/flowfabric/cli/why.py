"""`flowfabric why`: why an execution is not running. It only reads the database."""

from __future__ import annotations

from msgspec import to_builtins
from rich.text import Text

from flowfabric.cli.database import database_url, read
from flowfabric.cli.text import (
    Db,
    ExecutionArgument,
    Json,
    clean,
    not_found,
    parse_execution_id,
    print_json,
    show,
    utc,
)
from flowfabric.errors import NotFound
from flowfabric.model.explanation import Explanation, Reason

GOOD, BAD, WAITS = "green", "red", "yellow"
_STYLES = {"running": GOOD, "waiting_for_worker": WAITS, "reserved": WAITS, "lane_draining": WAITS}


def run(execution: ExecutionArgument, url: Db = None, as_json: Json = False) -> int:
    """Explains why an execution is not running, and what to do. Only reads the database."""
    ident, database = parse_execution_id(execution), database_url(url)
    try:
        found = read(database, lambda engine: engine.explain_execution(ident))
    except NotFound:
        raise not_found("execution", ident) from None
    if as_json:
        print_json(to_json(found))
    else:
        show(*render(found))
    return 0


def to_json(found: Explanation) -> dict[str, object]:
    return {"code": found.code.value, **to_builtins(found, enc_hook=str)}


def render(found: Explanation) -> list[Text]:
    title = Text.assemble(
        (clean(found.execution_kind), "bold"),
        f"  on lane {clean(found.lane_id)}, namespace {clean(found.namespace)}: ",
        (found.public_state, "bold"),
    )
    lines = [title, Text(f"  {found.execution_id}")]
    for at, reason in enumerate(found.reasons):
        lines += [Text(), *_render_reason(reason, "then " if at else "")]
    return lines


def _render_reason(reason: Reason, then: str) -> list[Text]:
    lines = [Text.assemble(then, (reason.code.value, _style(reason)), f": {clean(reason.says)}")]
    times = [
        f"{word} {utc(at)}"
        for word, at in (("since", reason.since_ms), ("until", reason.until_ms))
        if at
    ]
    if times:
        lines.append(Text(f"  {', '.join(times)}"))
    if reason.hint:
        lines.append(Text(f"  next: {clean(reason.hint)}"))
    return lines


def _style(reason: Reason) -> str:
    if reason.code.value == "ended":
        return GOOD if getattr(reason.facts, "outcome", "") == "success" else BAD
    return _STYLES.get(reason.code.value, BAD)
