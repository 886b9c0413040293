"""A flow in the terminal: a header, then a picture, a table of nodes or a table of layers.

A graph that is too wide is shown as a table of nodes, a very large one as a table of layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flowfabric.cli.flow_canvas import Box, draw
from flowfabric.cli.flow_layout import Layout, depths, layout
from flowfabric.cli.flow_view import APPEARANCES, FLOW_STYLES, FlowView, Node, appearance

MAX_NODES_DRAWN = 60
MAX_LAYER_ROWS = 60
USUAL_KINDS = ("", "dag")


def print_flow(view: FlowView, console: Console) -> None:
    plain = not is_rich(console)
    for line in header(view, plain=plain):
        console.print(line, highlight=False)
    if not view.nodes:
        return
    if len(view.nodes) > MAX_NODES_DRAWN:
        console.print(layer_table(view))
        return
    plan = layout(list(view.nodes), view.pairs)
    for compact in () if plain else (False, True):
        lines = picture(view, plan, compact=compact)
        if lines and max(line.cell_len for line in lines) <= console.width:
            for line in lines:
                console.print(line, highlight=False, crop=True, overflow="crop")
            return
    console.print(node_table(view, plain=plain))


def is_rich(console: Console) -> bool:
    """Whether the terminal accepts more than ASCII."""
    return console.encoding.lower().startswith("utf")


def when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def words(state: str) -> str:
    return state.replace("_", " ")


def header(view: FlowView, *, plain: bool = False) -> list[Text]:
    bar = "  " if plain else " · "
    first = Text.assemble("flow ", (str(view.flow_id), "bold"))
    state = Text(view.shown_state, FLOW_STYLES.get(view.shown_state, ""))
    facts = [f"namespace {view.namespace}", f"{len(view.nodes)} nodes", f"{len(view.lines)} edges"]
    facts += [f"kind {view.kind}"] if view.kind not in USUAL_KINDS else []
    facts.append(f"created {when(view.created_at)}")
    found = [first, Text(bar).join([state, *(Text(fact) for fact in facts)])]
    if view.cancellation_policy is not None or view.cancel_reason is not None:
        reason = f": {view.cancel_reason}" if view.cancel_reason else ""
        found.append(
            Text(
                f"cancelled by {view.cancellation_policy or 'an operator'}{reason}",
                FLOW_STYLES["cancelled"],
            )
        )
    counts = [
        state_text(state, f"{count} {words(state)}", plain=plain)
        for state, count in view.counts.items()
    ]
    return [*found, Text("  ").join(counts)] if counts else found


def state_text(state: str, label: str, *, plain: bool) -> Text:
    seen = appearance(state)
    return Text(f"{seen.plain if plain else seen.symbol} {label}", seen.style)


def tally_text(node: Node, *, plain: bool = False) -> str:
    """The policy of a node's dependencies and their results so far: `2 of 3: 1✔ 1✖`."""
    label = _tally(node, plain=plain)
    return f"{node.policy}: {label}" if node.policy and label else node.policy


def _tally(node: Node, *, plain: bool = False) -> str:
    ok, lost = node.tally
    good, bad = (
        ("+", "x") if plain else (APPEARANCES["completed"].symbol, APPEARANCES["failed"].symbol)
    )
    return " ".join(
        text for text in (f"{ok}{good}" if ok else "", f"{lost}{bad}" if lost else "") if text
    )


def picture(view: FlowView, plan: Layout, *, compact: bool = False) -> list[Text]:
    """The graph as boxes and lines; `compact` shows states as symbols only."""
    boxes = {}
    for key, node in view.nodes.items():
        seen = appearance(node.state)
        name = f"{seen.symbol} {node.label}"
        if compact:
            boxes[key] = Box(node.policy, name, _tally(node) if node.policy else "", seen.style)
        else:
            boxes[key] = Box(tally_text(node), name, words(node.state), seen.style)
    return draw(plan, boxes)


def node_table(view: FlowView, *, plain: bool = False) -> Table:
    """All nodes with their upstreams, in topological order."""
    depth = depths(list(view.nodes), view.pairs)
    waits: dict[str, list[str]] = {}
    for line in view.lines:
        waits.setdefault(line.down, []).append(view.nodes[line.up].label)
    table = Table(safe_box=True, box=None, pad_edge=False, header_style="bold")
    table.add_column("layer", justify="right")
    for name in ("node", "state", "waits for"):
        table.add_column(name, overflow="fold")
    for node in sorted(view.nodes.values(), key=lambda node: depth[node.key]):
        ups = ", ".join(dict.fromkeys(waits.get(node.key, ())))
        label = tally_text(node, plain=plain)
        table.add_row(
            str(depth[node.key]),
            Text(node.label),
            state_text(node.state, words(node.state), plain=plain),
            Text(f"{label} ({ups})" if label and ups else ups),
        )
    return table


def layer_table(view: FlowView) -> Table:
    """Counts per layer; equal neighbouring layers share a row."""
    depth = depths(list(view.nodes), view.pairs)
    layers: list[Counter[str]] = [Counter() for _ in range(max(depth.values()) + 1)]
    for node in view.nodes.values():
        layers[depth[node.key]][node.state] += 1
    rows = merged(layers)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("layer", "nodes"):
        table.add_column(name, justify="right")
    for state in view.counts:
        table.add_column(state_text(state, words(state), plain=False), justify="right")
    for first, last, counts in rows[:MAX_LAYER_ROWS]:
        cells = [
            Text(str(counts[state]) if counts[state] else "", appearance(state).style)
            for state in view.counts
        ]
        span = str(first) if first == last else f"{first}-{last}"
        each = " each" if first != last else ""
        table.add_row(span, f"{counts.total()}{each}", *cells)
    if len(rows) > MAX_LAYER_ROWS:
        table.add_row(
            "more", str(sum(c.total() * (b - a + 1) for a, b, c in rows[MAX_LAYER_ROWS:]))
        )
    return table


def merged(layers: Sequence[Counter[str]]) -> list[tuple[int, int, Counter[str]]]:
    """The first and the last layer of each run of equal layers."""
    runs = [
        (counts, [at for at, _ in run]) for counts, run in groupby(enumerate(layers), itemgetter(1))
    ]
    return [(run[0], run[-1], counts) for counts, run in runs]
