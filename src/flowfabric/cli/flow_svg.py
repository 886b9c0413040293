"""A flow as a self-contained SVG for light and dark pages, or as Graphviz text."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from msgspec import Struct

from flowfabric.cli.flow_layout import Layout, Spot, layout
from flowfabric.cli.flow_text import tally_text, words
from flowfabric.cli.flow_view import APPEARANCES, FlowView, Line, Node, appearance
from flowfabric.errors import ConfigError

MAX_NODES = 1_000
HIGH, ROW, GAP, MARGIN, TOP = 48, 76, 72, 24, 74
CHAR, NARROWEST = 7.6, 116
LEGEND = 34

_PLAIN = ("#ffffff", "#1f2328", "#59636e", "#8c959f", "#f6f8fa")
_DARK = ("#0d1117", "#e6edf3", "#9198a1", "#6e7681", "#161b22")
_LINES = {"satisfied": "s-completed", "impossible": "s-failed"}
_EDGES = {"satisfied": "solid", "impossible": "solid", "unsatisfied": "dashed", "staged": "dotted"}
_COLOURS = {"satisfied": appearance("completed").light, "impossible": appearance("failed").light}


class _Places(Struct, frozen=True):
    """The left side and width of each layer, the centre of each spot, and the total size."""

    columns: list[tuple[float, float]]
    heights: dict[Spot, float]
    width: float
    height: float


def svg(view: FlowView) -> str:
    if len(view.nodes) > MAX_NODES:
        raise ConfigError(
            f"--svg: draws at most {MAX_NODES} nodes, this flow has {len(view.nodes)}; use --dot"
        )
    plan = layout(list(view.nodes), view.pairs)
    places = _places(view, plan)
    decided_last = sorted(view.lines, key=lambda line: line.state in _LINES)
    title = f"flow {view.flow_id}: {view.shown_state}"
    width, height = f"{places.width:.0f}", f"{places.height:.0f}"
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="t" {size}>',
        f'<title id="t">{escape(title)}</title>',
        f"<style>{_style(view)}</style>",
        f'<rect class="page" width="{width}" height="{height}" rx="10"/>',
        *_header(view),
        *(_line(line, plan, places) for line in decided_last if (line.up, line.down) in plan.paths),
    ]
    for layer in plan.layers:
        parts += [_box(view.nodes[spot.node], spot, places) for spot in layer if not spot.is_bend]
    return "\n".join([*parts, _legend(view, places), "</svg>"]) + "\n"


def _places(view: FlowView, plan: Layout) -> _Places:
    columns, left = [], float(MARGIN)
    for layer in plan.layers:
        widths = [_width(view.nodes[spot.node]) for spot in layer if not spot.is_bend]
        columns.append((left, max(widths, default=NARROWEST)))
        left += columns[-1][1] + GAP
    lowest = min(plan.heights.values(), default=0.0)
    heights = {spot: TOP + HIGH / 2 + 22 + (at - lowest) * ROW for spot, at in plan.heights.items()}
    legend = sum(_legend_width(state, count) for state, count in view.counts.items())
    width = max(left - GAP + MARGIN, MARGIN * 2 + legend, 420.0)
    return _Places(
        columns, heights, width, max(heights.values(), default=TOP) + HIGH / 2 + 16 + LEGEND
    )


def _width(node: Node) -> float:
    longest = max(len(node.label) + 3, len(words(node.state)) + 1, len(tally_text(node)))
    return max(longest * CHAR + 24, NARROWEST)


def _style(view: FlowView) -> str:
    states = {state: appearance(state) for state in [*view.counts, "completed", "failed"]}
    light = _colours(_PLAIN, {state: seen.light for state, seen in states.items()})
    dark = _colours(_DARK, {state: seen.dark for state, seen in states.items()})
    return (
        "text{font:13px ui-sans-serif,system-ui,'Segoe UI',Helvetica,Arial,sans-serif}"
        ".big{font-size:15px;font-weight:600}.name{font-weight:600}.small{font-size:11px}"
        ".box{stroke-width:1.5}.edge{fill:none;stroke-width:1.6}.open{stroke-dasharray:5 4}"
        ".staged{stroke-dasharray:1.5 4}"
        f"{light}@media (prefers-color-scheme:dark){{{dark}}}"
    )


def _colours(page: tuple[str, ...], states: dict[str, str]) -> str:
    back, text, soft, line, box = page
    rules = [
        f".page{{fill:{back}}}text{{fill:{text}}}.soft{{fill:{soft}}}",
        f".box{{fill:{box}}}.edge{{stroke:{line}}}.tip{{fill:{line}}}",
    ]
    for state, colour in states.items():
        name = f"s-{state}"
        rules.append(f".box.{name}{{stroke:{colour}}}text.{name},.tip.{name}{{fill:{colour}}}")
        rules.append(f".edge.{name}{{stroke:{colour}}}")
    return "".join(rules)


def _header(view: FlowView) -> list[str]:
    facts = [view.shown_state, f"namespace {view.namespace}"]
    facts += [f"{len(view.nodes)} nodes", f"{len(view.lines)} edges"]
    if view.cancel_reason:
        facts.append(view.cancel_reason)
    return [
        f'<text class="big" x="{MARGIN}" y="34">flow {escape(str(view.flow_id))}</text>',
        f'<text class="soft" x="{MARGIN}" y="56">{escape(" · ".join(facts))}</text>',
    ]


def _line(line: Line, plan: Layout, places: _Places) -> str:
    """A curve through the bends, horizontal at both ends."""
    points = []
    for spot in plan.paths[line.up, line.down]:
        left, width = places.columns[spot.layer]
        y = places.heights[spot]
        points += [(left, y), (left + width, y)]
    points = points[1:-1]
    x, y = points[-1]
    points[-1] = (x - 7, y)
    drawn = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (ax, ay), (bx, by) in pairwise(points):
        middle = (ax + bx) / 2
        drawn += (
            f"L{bx:.1f} {by:.1f}"
            if ay == by
            else f"C{middle:.1f} {ay:.1f} {middle:.1f} {by:.1f} {bx:.1f} {by:.1f}"
        )
    colour = _LINES.get(line.state, "")
    dashes = {"unsatisfied": "open", "staged": "staged"}.get(line.state, "")
    kind = " ".join(filter(None, ("edge", colour, dashes)))
    title = escape(f"{words(line.state)}{', passes its result on' if line.passes else ''}")
    arrow = f"M{x - 8:.1f} {y - 4.5:.1f}L{x:.1f} {y:.1f}L{x - 8:.1f} {y + 4.5:.1f}z"
    tip = f'<path class="tip {colour}" d="{arrow}"/>'
    return f'<g><title>{title}</title><path class="{kind}" d="{drawn}"/>{tip}</g>'


def _box(node: Node, spot: Spot, places: _Places) -> str:
    (x, width), y = places.columns[spot.layer], places.heights[spot] - HIGH / 2
    seen = appearance(node.state)
    state = f"s-{node.state}" if node.state in APPEARANCES else ""
    tally = tally_text(node)
    above = _text("small soft", x + 2, y - 5, tally) if tally else ""
    return (
        f"<g><title>{escape(node.key)}</title>"
        f'<rect class="box {state}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{HIGH}"'
        f' rx="8"/>{above}'
        f"{_text(f'name {state}', x + 12, y + 20, seen.symbol)}"
        f"{_text('name', x + 30, y + 20, node.label)}"
        f"{_text('small soft', x + 30, y + 37, words(node.state))}</g>"
    )


def _text(style: str, x: float, y: float, text: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _legend_width(state: str, count: int) -> float:
    return len(f"{count} {words(state)}") * 6.4 + 36


def _legend(view: FlowView, places: _Places) -> str:
    x, y, found = float(MARGIN), places.height - 16, []
    for state, count in view.counts.items():
        seen = appearance(state)
        found.append(_text(f"small s-{escape(state)}", x, y, seen.symbol))
        found.append(_text("small soft", x + 16, y, f"{count} {words(state)}"))
        x += _legend_width(state, count)
    return "".join(found)


def dot(view: FlowView) -> str:
    lines = [
        f"digraph {quoted(str(view.flow_id))} {{",
        "  rankdir=LR;",
        f"  label={quoted(f'flow {view.flow_id}: {view.shown_state}')};",
        '  node [shape=box, style=rounded, fontname="sans-serif"];',
    ]
    for node in view.nodes.values():
        seen = appearance(node.state)
        rows = [f"{seen.symbol} {node.label}", words(node.state), tally_text(node)]
        label = "\\n".join(escaped(text) for text in rows if text)
        lines.append(f'  {quoted(node.key)} [label="{label}", color="{seen.light}"];')
    lines += [
        f"  {quoted(line.up)} -> {quoted(line.down)} [{_edge_attributes(line)}];"
        for line in view.lines
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _edge_attributes(line: Line) -> str:
    colour = _COLOURS.get(line.state, appearance("waiting").light)
    attributes = f'style={_EDGES.get(line.state, "dashed")}, color="{colour}"'
    return f'{attributes}, label="data"' if line.passes else attributes


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def quoted(text: str) -> str:
    return f'"{escaped(text)}"'
