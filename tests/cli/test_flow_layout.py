"""Graph layout: positions, and lines that match the graph."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from flowfabric.cli.flow_canvas import DOWN, LEFT, RIGHT, STROKES, UP, Box, draw
from flowfabric.cli.flow_layout import MAX_BENDS, Spot, crossings, depths, layout

Graph = tuple[list[str], list[tuple[str, str]]]


@st.composite
def graphs(draw_: st.DrawFn, most: int = 10) -> Graph:
    nodes = [f"n{index:02}" for index in range(draw_(st.integers(1, most)))]
    pairs = [(up, down) for at, up in enumerate(nodes) for down in nodes[at + 1 :]]
    edges = draw_(st.lists(st.sampled_from(pairs), unique=True, max_size=14)) if pairs else []
    return draw_(st.permutations(nodes)), edges


def test_layers_are_the_longest_ways() -> None:
    nodes = ["a", "b", "c", "d", "lone"]
    assert depths(nodes, [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")]) == {
        "a": 0,
        "b": 1,
        "c": 2,
        "d": 3,
        "lone": 0,
    }


def test_an_empty_graph_and_a_cycle() -> None:
    assert layout([], []).rows() == {}
    found = layout(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "b")])
    assert [len(layer) for layer in found.layers] == [1, 2]
    assert list(found.paths) == [("a", "b")]


def test_a_crossing_is_undone() -> None:
    edges = [("a", "d"), ("b", "c")]
    found = layout(["a", "b", "c", "d"], edges)
    steps = [step for path in found.paths.values() for step in pairwise(path)]
    assert crossings(found.layers, steps) == 0
    straight = [[Spot(0, "a"), Spot(0, "b")], [Spot(1, "c"), Spot(1, "d")]]
    assert crossings(straight, [(Spot(0, "a"), Spot(1, "d")), (Spot(0, "b"), Spot(1, "c"))]) == 1


def test_a_join_is_centred_between_its_upstreams() -> None:
    found = layout(["a", "b", "c", "join"], [(up, "join") for up in "abc"])
    rows = found.rows()
    assert rows[Spot(1, "join")] == sorted(rows[Spot(0, up)] for up in "abc")[1]


def test_long_lines_share_their_bends_and_too_many_go_straight() -> None:
    chain = [f"n{at}" for at in range(6)]
    found = layout(chain, [*pairwise(chain), ("n0", "n4"), ("n0", "n5")])
    assert found.paths["n0", "n5"] == [
        Spot(0, "n0"),
        *(Spot(at, "n0", True) for at in (1, 2, 3, 4)),
        Spot(5, "n5"),
    ]
    assert found.paths["n0", "n4"][:4] == found.paths["n0", "n5"][:4]
    longer = [f"n{at}" for at in range(200)]
    found = layout(longer, [*pairwise(longer), *((up, longer[-1]) for up in longer[:-1])])
    assert sum(spot.is_bend for layer in found.layers for spot in layer) <= MAX_BENDS
    assert len(found.paths["n0", "n199"]) == 2


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_spots_do_not_overlap(graph: Graph) -> None:
    found = layout(*graph)
    rows = found.rows()
    for layer in found.layers:
        assert [rows[spot] for spot in layer] == sorted({rows[spot] for spot in layer})
        assert all(b >= a + 1 - 1e-9 for a, b in pairwise(found.heights[spot] for spot in layer))
    assert {spot.node for layer in found.layers for spot in layer if not spot.is_bend} == set(
        graph[0]
    )
    for (up, down), path in found.paths.items():
        assert (path[0].node, path[-1].node) == (up, down)
        assert [spot.layer for spot in path] == list(range(path[0].layer, path[-1].layer + 1))


# ---- reading a picture back

_ARMS = {char: arms for arms, char in STROKES.items()}
_STEPS = {UP: (0, -1), DOWN: (0, 1), RIGHT: (1, 0)}
_OPPOSITE = {UP: DOWN, DOWN: UP, RIGHT: LEFT}


def read_back(lines: list[str]) -> set[tuple[str, str]]:
    """Follows the lines from every box, never to the left, beneath whatever is crossed."""
    cells = {(x, y): char for y, line in enumerate(lines) for x, char in enumerate(line)}
    boxes = {line[at + 2 : at + 5]: (at, y) for y, line in enumerate(lines) for at in _starts(line)}
    names = {place: name for name, place in boxes.items()}
    found = set()
    for name, (left, y) in boxes.items():
        right = lines[y].index("│", left + 1)
        row = y
        while cells[left, row] == "│":
            if cells.get((right + 1, row)) in _ARMS:
                found |= {(name, names[end]) for end in _ends(cells, (right, row))}
            row += 1
    return found


def _starts(line: str) -> list[int]:
    return [at for at in range(len(line) - 4) if line[at : at + 3] == "│ n"]


def _ends(cells: dict[tuple[int, int], str], start: tuple[int, int]) -> set[tuple[int, int]]:
    ends, seen, ways = set(), set(), [(start, RIGHT)]
    while ways:
        (x, y), way = ways.pop()
        x, y = x + _STEPS[way][0], y + _STEPS[way][1]
        if ((x, y), way) in seen:
            continue
        seen.add(((x, y), way))
        char = cells[x, y]
        if char == "▶":
            ends.add((x + 1, y))
        elif way == RIGHT and char == "│":
            ways.append(((x, y), RIGHT))
        else:
            arms = _ARMS[char]
            assert arms & _OPPOSITE[way], f"a line ends in the air at {x}, {y}"
            ways += [((x, y), turn) for turn in _STEPS if arms & turn and turn != _OPPOSITE[way]]
    return ends


def drawn(nodes: list[str], edges: list[tuple[str, str]]) -> list[str]:
    return [
        line.plain
        for line in draw(layout(nodes, edges), {node: Box("", node, "ok", "") for node in nodes})
    ]


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_the_picture_matches_the_graph(graph: Graph) -> None:
    lines = drawn(*graph)
    assume(lines)
    assert read_back(lines) == set(graph[1])


def test_an_unreadable_graph_is_not_drawn() -> None:
    ups, downs = [f"n{at:02}" for at in range(6)], [f"n{at:02}" for at in range(6, 12)]
    assert drawn([*ups, *downs], [(up, down) for up in ups for down in downs]) == []


def test_a_fan_and_a_join() -> None:
    edges = [("n01", "n02"), ("n01", "n03"), ("n02", "n04"), ("n03", "n04")]
    assert drawn(["n01", "n02", "n03", "n04"], edges) == [
        "╭─────╮    ╭─────╮    ╭─────╮",
        "│ n01 │ ╭─▶│ n02 │ ╭─▶│ n04 │",
        "│ ok  │─┤  │ ok  │─┤  │ ok  │",
        "╰─────╯ │  ╰─────╯ │  ╰─────╯",
        "        │  ╭─────╮ │",
        "        ╰─▶│ n03 │ │",
        "           │ ok  │─╯",
        "           ╰─────╯",
    ]


@pytest.mark.parametrize("text", ["数据", "é", "e\u0301"])
def test_wide_and_combining_characters_keep_the_frame_straight(text: str) -> None:
    lines = draw(layout(["a"], []), {"a": Box("", text, "ok", "")})
    assert len({cell_len(line.plain) for line in lines}) == 1
