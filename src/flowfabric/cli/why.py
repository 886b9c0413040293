"""`flowfabric why`: why an execution is not running. It only reads the database."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from msgspec import to_builtins
from rich.console import Console
from rich.text import Text

from flowfabric.cli.database import database_url, with_reader
from flowfabric.cli.text import clean, not_found, parse_execution_id, utc
from flowfabric.errors import NotFound
from flowfabric.model.explanation import Explanation, Reason

GOOD, BAD, WAITS = "green", "red", "yellow"
_STYLES = {"running": GOOD, "waiting_for_worker": WAITS, "reserved": WAITS, "lane_draining": WAITS}


def run(text: str, url: str | None, console: Console, *, as_json: bool) -> int:
    ident, database = parse_execution_id(text), database_url(url)
    try:
        found = asyncio.run(with_reader(database, lambda engine: engine.explain_execution(ident)))
    except NotFound:
        raise not_found("execution", ident) from None
    if as_json:
        console.file.write(json.dumps(to_json(found)) + "\n")
        return 0
    for line in render(found):
        console.print(line, highlight=False, soft_wrap=True)
    return 0


def to_json(found: Explanation) -> dict[str, Any]:
    body: dict[str, Any] = to_builtins(found, enc_hook=str)
    return {"code": found.code.value, **body}


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
