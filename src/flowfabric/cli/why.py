"""`flowfabric why`: why an execution is not running. It only reads the database."""

from __future__ import annotations

from msgspec import to_builtins
from rich.text import Text

from flowfabric.cli import text
from flowfabric.cli.database import Database
from flowfabric.cli.identify import execution_of
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.model.explanation import Explanation, Reason

GOOD, BAD, WAITS = "green", "red", "yellow"
_STYLES = {"running": GOOD, "waiting_for_worker": WAITS, "reserved": WAITS, "lane_draining": WAITS}


def run(execution: text.ExecutionArgument, database: Database, as_json: text.Json = False) -> int:
    """Explains why an execution is not running, and what to do. Only reads the database."""
    found = database.read(lambda engine: _explained(engine, execution))
    if as_json:
        text.print_json(to_json(found))
    else:
        text.show(*render(found))
    return 0


async def _explained(engine: EngineProtocol, execution: str) -> Explanation:
    return await engine.explain_execution(await execution_of(engine, execution))


def to_json(found: Explanation) -> dict[str, object]:
    return {"code": found.code.value, **to_builtins(found, enc_hook=str)}


def render(found: Explanation) -> list[Text]:
    title = Text.assemble(
        (text.clean(found.execution_kind), "bold"),
        f"  on lane {text.clean(found.lane_id)}, namespace {text.clean(found.namespace)}: ",
        (found.public_state, "bold"),
    )
    lines = [title, Text(f"  {text.short(found.execution_id)}")]
    for at, reason in enumerate(found.reasons):
        lines += [Text(), *_render_reason(reason, "then " if at else "")]
    return lines


def _render_reason(reason: Reason, then: str) -> list[Text]:
    lines = [
        Text.assemble(then, (reason.code.value, _style(reason)), f": {text.clean(reason.says)}")
    ]
    times = [
        f"{word} {text.utc(at)}"
        for word, at in (("since", reason.since_ms), ("until", reason.until_ms))
        if at
    ]
    if times:
        lines.append(Text(f"  {', '.join(times)}"))
    if reason.hint:
        lines.append(Text(f"  next: {text.clean(reason.hint)}"))
    return lines


def _style(reason: Reason) -> str:
    if reason.code.value == "ended":
        return GOOD if getattr(reason.facts, "outcome", "") == "success" else BAD
    return _STYLES.get(reason.code.value, BAD)
