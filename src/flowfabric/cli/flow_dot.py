"""A flow as Graphviz text."""

from __future__ import annotations

from flowfabric.cli.flow_text import tally_text, words
from flowfabric.cli.flow_view import FlowView, Line, appearance

_EDGES = {"satisfied": "solid", "impossible": "solid", "unsatisfied": "dashed", "staged": "dotted"}
_COLOURS = {"satisfied": appearance("completed").light, "impossible": appearance("failed").light}


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
