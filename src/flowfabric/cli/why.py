"""`flowfabric why`: what keeps one execution from running, from a database that is only read."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from msgspec import to_builtins
from rich.console import Console
from rich.text import Text

from flowfabric.cli.database import chosen_db, looking
from flowfabric.cli.flow_view import clean
from flowfabric.errors import ConfigError, NotFound
from flowfabric.ids import ExecutionId, ExecutionIdError
from flowfabric.model.explanation import Explanation, Reason

GOOD, BAD, WAITS = "green", "red", "yellow"
_STYLES = {"running": GOOD, "waiting_for_worker": WAITS, "reserved": WAITS, "lane_draining": WAITS}


def run(text: str, url: str | None, console: Console, *, as_json: bool) -> int:
    ident, where = execution_id(text), chosen_db(url)
    try:
        found = asyncio.run(looking(where, lambda engine: engine.explain_execution(ident)))
    except NotFound:
        raise ConfigError(
            f"{ident}: there is no such execution in this database; it may have been trimmed"
        ) from None
    if as_json:
        console.file.write(json.dumps(as_object(found)) + "\n")
        return 0
    for line in shown(found):
        console.print(line, highlight=False, soft_wrap=True)
    return 0


def execution_id(text: str) -> ExecutionId:
    try:
        return ExecutionId(text)
    except ExecutionIdError:
        shape = "{fp:N}:<uuid>; quote it, for the shell has its own idea of braces"
        raise ConfigError(
            f"ID: an execution id of the form {shape}, got {clean(text[:80])!r}"
        ) from None


def as_object(found: Explanation) -> dict[str, Any]:
    said: dict[str, Any] = to_builtins(found, enc_hook=str)
    return {"code": found.code.value, **said}


def shown(found: Explanation) -> list[Text]:
    title = Text.assemble(
        (clean(found.execution_kind), "bold"),
        f"  on lane {clean(found.lane_id)}, namespace {clean(found.namespace)}: ",
        (found.public_state, "bold"),
    )
    lines = [title, Text(f"  {found.execution_id}")]
    for at, reason in enumerate(found.reasons):
        lines += [Text(), *_reason(reason, "then " if at else "")]
    return lines


def _reason(reason: Reason, then: str) -> list[Text]:
    lines = [Text.assemble(then, (reason.code.value, _style(reason)), f": {clean(reason.says)}")]
    times = [
        f"{word} {_time(at)}"
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


def _time(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
