"""`flowfabric flow show` and `flowfabric flow list`: graphs and their states, from a database that is only read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flowfabric.cli.database import looking
from flowfabric.cli.flow_dot import dot
from flowfabric.cli.flow_svg import svg
from flowfabric.cli.flow_text import print_flow, when
from flowfabric.cli.flow_view import FLOW_STYLES, clean, view_flow
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError
from flowfabric.ids import FLOW_PARTITIONS
from flowfabric.model.flow_views import FlowListed, FlowSnapshot
from flowfabric.rules.flows.flows import count_members, derived_state

STDOUT = "-"
MAX_FLOWS_READ = 20_000
PAGE = 1_000
AT_ONCE = 8
MAX_COUNTED = 1_000
USUAL = {"default", "dag", ""}


def flow_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ConfigError(
            f"flow id: a UUID such as 6f1c1f0e-8f6b-4f7e-9a53-3c1e2f8f0d11, got {clean(text[:80])!r}"
        ) from None


def show(text: str, url: str, console: Console, *, as_dot: bool, svg_to: str | None) -> int:
    if as_dot and svg_to is not None:
        raise ConfigError("--dot and --svg: one of them at a time")
    ident = flow_id(text)
    view = asyncio.run(looking(url, lambda engine: view_flow(engine, ident)))
    if as_dot:
        console.file.write(dot(view))
    elif svg_to == STDOUT:
        console.file.write(svg(view))
    elif svg_to is not None:
        _write(svg_to, svg(view))
        console.print(Text(f"wrote {svg_to}"), highlight=False)
    else:
        print_flow(view, console)
    return 0


async def draw(engine: Engine, ident: UUID, console: Console | None = None) -> None:
    """Prints a flow of an engine at hand, as `flowfabric flow show` does."""
    print_flow(await view_flow(engine, ident), console or Console())


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--svg: cannot write {path}: {error.strerror}") from None


# ---- the list


def listed(url: str, limit: int, console: Console) -> int:
    found, rows = asyncio.run(looking(url, lambda engine: _newest(engine, limit)))
    if not found:
        console.print("no flows", highlight=False)
        return 0
    named = [
        (name, [clean(getattr(flow, name)) for flow, _ in rows])
        for name in ("namespace", "flow_kind")
    ]
    named = [(name, said) for name, said in named if set(said) - USUAL]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in (
        "flow",
        "state",
        "created (UTC)",
        "nodes",
        *(name.removeprefix("flow_") for name, _ in named),
    ):
        table.add_column(
            name,
            justify="right" if name == "nodes" else "left",
            no_wrap=name in ("flow", "state", "created (UTC)"),
        )
    for at, (flow, state) in enumerate(rows):
        cells = (
            str(flow.flow_id),
            Text(state, FLOW_STYLES.get(state, "")),
            when(flow.created_at).removesuffix(" UTC"),
            str(flow.node_count),
        )
        table.add_row(*cells, *(Text(said[at]) for _, said in named))
    console.print(table)
    if found > len(rows):
        more = "at least " if found >= MAX_FLOWS_READ else ""
        console.print(
            f"the newest {len(rows)} of {more}{found} flows; --limit shows more", highlight=False
        )
    return 0


async def _newest(engine: Engine, limit: int) -> tuple[int, list[tuple[FlowSnapshot, str]]]:
    """How many flows there are, as far as was looked, and the newest of them with what they are called."""
    found: list[FlowListed] = []
    for first in range(0, FLOW_PARTITIONS, AT_ONCE):
        pages = await asyncio.gather(
            *(_flows_of(engine, at) for at in range(first, first + AT_ONCE))
        )
        found += [flow for page in pages for flow in page]
        if len(found) >= MAX_FLOWS_READ:
            break
    found.sort(key=lambda flow: (-flow.created_at, flow.flow_id))
    rows = []
    for flow in found[:limit]:
        snapshot = await engine.describe_flow(flow.flow_id)
        if snapshot is not None:
            rows.append((snapshot, await _state(engine, snapshot)))
    return len(found), rows


async def _flows_of(engine: Engine, partition: int) -> list[FlowListed]:
    found: list[FlowListed] = []
    cursor = None
    while len(found) < MAX_FLOWS_READ:
        page = await engine.list_flows(partition, cursor, PAGE)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


async def _state(engine: Engine, flow: FlowSnapshot) -> str:
    """As its members are now; for very large flows, as they were when they were last summed up."""
    if flow.public_flow_state == "cancelled":
        return "cancelled"
    summary = await engine.read_flow_summary(flow.flow_id)
    if summary is not None and flow.node_count > MAX_COUNTED:
        return summary.public_flow_state
    members = await engine.flow_members(flow.flow_id)
    if members:
        return derived_state(count_members(member.public_state for member in members))
    return flow.public_flow_state if summary is None else summary.public_flow_state
