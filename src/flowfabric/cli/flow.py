"""`flowfabric flow show` and `flowfabric flow list`. They only read the database."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

from flowfabric.cli.database import Database
from flowfabric.cli.exits import Exit
from flowfabric.cli.flow_svg import dot, svg
from flowfabric.cli.flow_text import print_flow, when
from flowfabric.cli.flow_view import FLOW_STYLES, FlowView, view_flow
from flowfabric.cli.identify import not_found
from flowfabric.cli.text import clean, console, parse_id, plural, show
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.errors import ConfigError, NotFound
from flowfabric.ids import FLOW_PARTITIONS, parse_uuid
from flowfabric.model.flow import CancelFlowPolicy, PartiallyCancelled
from flowfabric.model.flow_views import FlowListed, FlowSnapshot
from flowfabric.rules.flows.flows import state_of_members

EXPECTED = "flow id: expected a UUID such as 6f1c1f0e-8f6b-4f7e-9a53-3c1e2f8f0d11"
STDOUT_PATH = "-"
MAX_FLOWS_READ = 20_000
PAGE = 1_000
PARALLEL = 8
MAX_COUNTED = 1_000
USUAL = {"default", "dag", ""}


class FileIsOptional(TyperCommand):
    """`--svg` without a file means standard output."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        filled = [
            f"--svg={STDOUT_PATH}" if arg == "--svg" and after.startswith("--") else arg
            for arg, after in zip(args, [*args[1:], "--"], strict=False)
        ]
        return super().parse_args(ctx, filled)


def show_flow(
    flow_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="The flow's UUID; `flowfabric flow list` shows them."),
    ],
    database: Database,
    as_dot: Annotated[bool, typer.Option("--dot", help="Print Graphviz text instead.")] = False,
    svg_to: Annotated[
        str | None,
        typer.Option(
            "--svg", metavar="[FILE]", help="Write an SVG picture to this file, or print it."
        ),
    ] = None,
) -> int:
    """Draws a flow: its nodes with their states, and their dependencies."""
    if as_dot and svg_to is not None:
        raise ConfigError("--dot and --svg: only one of them is accepted")
    ident = parse_id(parse_uuid, flow_id, EXPECTED)
    view = database.read(lambda engine: _view(engine, ident))
    if as_dot:
        console.file.write(dot(view))
    elif svg_to == STDOUT_PATH:
        console.file.write(svg(view))
    elif svg_to is not None:
        _write(svg_to, svg(view))
        show(Text(f"wrote {svg_to}"))
    else:
        print_flow(view, console)
    return 0


def cancel_flow(
    flow_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="The flow's UUID; `flowfabric flow list` shows them."),
    ],
    database: Database,
    policy: Annotated[
        str,
        typer.Option(
            metavar="WHICH",
            help="cancel_all members, cancel_pending ones that have not started, or "
            "cancel_flow_only.",
        ),
    ] = CancelFlowPolicy.CANCEL_ALL.value,
) -> int:
    """Cancels a flow and its members."""
    ident = parse_id(parse_uuid, flow_id, EXPECTED)
    found = database.write(lambda engine: engine.cancel_flow(ident, policy))
    show(f"cancelled the flow and {plural(len(found.member_execution_ids), 'member')}")
    if isinstance(found, PartiallyCancelled):
        left = plural(len(found.failed_member_execution_ids), "member")
        show(f"{left} could not be cancelled yet; a background loop goes on")
        return Exit.PARTLY_DONE
    return Exit.DONE


async def _view(engine: EngineProtocol, ident: UUID) -> FlowView:
    try:
        return await view_flow(engine, ident)
    except NotFound:
        raise not_found("flow", ident) from None


async def draw(engine: EngineProtocol, ident: UUID, on: Console = console) -> None:
    """Print a flow of an open engine, as `flowfabric flow show` does."""
    print_flow(await view_flow(engine, ident), on)


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--svg: cannot write {path}: {error.strerror}") from None


# ---- the list


def list_flows(
    database: Database,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000, help="At most this many, the newest first.")
    ] = 20,
) -> int:
    """Lists the flows of a database, the newest first."""
    found, rows = database.read(lambda engine: newest_flows(engine, limit))
    if not found:
        show("no flows")
        return 0
    names = ("namespace", "flow_kind")
    columns = {name: [clean(getattr(flow, name)) for flow, _ in rows] for name in names}
    named = {name: values for name, values in columns.items() if set(values) - USUAL}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("flow", "state", "created (UTC)"):
        table.add_column(name, no_wrap=True)
    table.add_column("nodes", justify="right")
    for name in named:
        table.add_column(name.removeprefix("flow_"))
    for at, (flow, state) in enumerate(rows):
        cells = (
            str(flow.flow_id),
            Text(state, FLOW_STYLES.get(state, "")),
            when(flow.created_at).removesuffix(" UTC"),
            str(flow.node_count),
        )
        table.add_row(*cells, *(Text(values[at]) for values in named.values()))
    console.print(table)
    if found > len(rows):
        more = "at least " if found >= MAX_FLOWS_READ else ""
        show(f"the newest {len(rows)} of {more}{found} flows; --limit shows more")
    return 0


async def newest_flows(
    engine: EngineProtocol, limit: int
) -> tuple[int, list[tuple[FlowSnapshot, str]]]:
    """The number of flows, up to MAX_FLOWS_READ, and the newest of them with their states."""
    found: list[FlowListed] = []
    for first in range(0, FLOW_PARTITIONS, PARALLEL):
        pages = await asyncio.gather(
            *(_flows_of(engine, at) for at in range(first, first + PARALLEL))
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


async def _flows_of(engine: EngineProtocol, partition: int) -> list[FlowListed]:
    found: list[FlowListed] = []
    cursor = None
    while len(found) < MAX_FLOWS_READ:
        page = await engine.list_flows(partition, cursor, PAGE)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


async def _state(engine: EngineProtocol, flow: FlowSnapshot) -> str:
    """The state derived from the members; for a very large flow, that of its stored summary."""
    if flow.public_flow_state == "cancelled":
        return "cancelled"
    summary = await engine.read_flow_summary(flow.flow_id)
    if summary is not None and flow.node_count > MAX_COUNTED:
        return summary.public_flow_state
    members = await engine.flow_members(flow.flow_id)
    if members:
        return state_of_members(members)
    return flow.public_flow_state if summary is None else summary.public_flow_state
