"""A graph in characters: boxes in columns from left to right, with lines in the gaps.

Lines enter a box on its first row and leave it on the rows below, one row per track, and all
boxes have the same height. So no line overlaps another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from flowfabric.cli.flow_layout import Layout, Spot

ENTERS, LEAVES = 1, 2
MAX_WAYS = 4
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
LINE_STYLE = "bright_black"
STROKES = {
    UP | DOWN: "│", LEFT | RIGHT: "─",
    DOWN | RIGHT: "╭", DOWN | LEFT: "╮", UP | RIGHT: "╰", UP | LEFT: "╯",
    UP | DOWN | RIGHT: "├", UP | DOWN | LEFT: "┤", LEFT | RIGHT | DOWN: "┬", LEFT | RIGHT | UP: "┴",
    UP | DOWN | LEFT | RIGHT: "┼",
}  # fmt: skip


class Box(Struct, frozen=True):
    title: str
    first: str
    second: str
    style: str

    @property
    def inner(self) -> int:
        return max(cell_len(self.title), cell_len(self.first), cell_len(self.second)) + 2


class _Track(Struct):
    """A vertical line in a gap that joins the rows of its sources and targets."""

    sources: list[Spot]
    targets: list[Spot]
    column: int = 0
    leaves: list[int] = []
    enters: list[int] = []

    @property
    def top(self) -> int:
        return min(*self.leaves, *self.enters)

    @property
    def bottom(self) -> int:
        return max(*self.leaves, *self.enters)


class Canvas:
    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], tuple[str, str]] = {}
        self._strokes: dict[tuple[int, int], int] = {}

    def stroke(self, x: int, y: int, arms: int) -> None:
        self._strokes[x, y] = self._strokes.get((x, y), 0) | arms

    def across(self, y: int, start: int, end: int, skip: frozenset[int] = frozenset()) -> None:
        """A horizontal line; it passes beneath the vertical lines in the columns to skip."""
        for x in range(start, end + 1):
            if x not in skip:
                arms = (LEFT if x > start else 0) | (RIGHT if x < end else 0)
                self.stroke(x, y, arms or LEFT | RIGHT)

    def down(self, x: int, top: int, bottom: int) -> None:
        for y in range(top, bottom + 1):
            self.stroke(x, y, (UP if y > top else 0) | (DOWN if y < bottom else 0))

    def write(self, x: int, y: int, text: str, style: str) -> None:
        for char in text:
            width = cell_len(char)
            if not width:
                continue
            self._cells[x, y] = (char, style)
            for more in range(1, width):
                self._cells[x + more, y] = ("", style)
            x += width

    def lines(self) -> list[Text]:
        cells = {
            at: (STROKES.get(arms, "─"), LINE_STYLE) for at, arms in self._strokes.items()
        } | self._cells
        found = []
        for y in range(max((at[1] for at in cells), default=-1) + 1):
            row = {at[0]: cell for at, cell in cells.items() if at[1] == y}
            line = Text(no_wrap=True)
            for x in range(max(row, default=-1) + 1):
                line.append(*row.get(x, (" ", "")))
            found.append(line)
        return found


def draw(plan: Layout, boxes: Mapping[str, Box]) -> list[Text]:
    """The lines of the picture; none if more than MAX_WAYS tracks leave a box."""
    canvas, rows = Canvas(), plan.rows()
    gaps = [_tracks(plan, at, rows) for at in range(len(plan.layers))]
    ways = max(
        (n for tracks in gaps for n in Counter(s for t in tracks for s in t.sources).values()),
        default=1,
    )
    if ways > MAX_WAYS:
        return []
    tall, left = ways + 3, 0
    before: list[_Track] = []
    for layer, tracks in zip(plan.layers, gaps, strict=True):
        _side_by_side(tracks, rows, tall)
        widths = [boxes[spot.node].inner for spot in layer if not spot.is_bend]
        right = left + 1 + max(widths, default=1)
        for spot in layer:
            y = rows[spot] * tall
            if spot.is_bend:
                leaves = [out for track in tracks for at, out in _outs(track) if at == spot]
                _bend(canvas, y + ENTERS, leaves, (left, right))
            else:
                arrives = any(spot in track.targets for track in before)
                ends = (y, y + tall - 1)
                _box(canvas, boxes[spot.node], (left, right), ends, arrives=arrives)
        gap = max((track.column for track in tracks), default=0) * 2 + 4
        for track in tracks:
            _route(canvas, track, tracks, right + 1, right + gap)
        before, left = tracks, right + gap + 1
    return canvas.lines()


def _outs(track: _Track) -> Iterable[tuple[Spot, int]]:
    return zip(track.sources, track.leaves, strict=True)


def _bend(canvas: Canvas, enters: int, leaves: list[int], sides: tuple[int, int]) -> None:
    left, right = sides
    middle = (left + right) // 2
    canvas.across(enters, left, middle)
    canvas.down(middle, enters, max(leaves))
    for y in leaves:
        canvas.across(y, middle, right)


def _box(
    canvas: Canvas, box: Box, sides: tuple[int, int], ends: tuple[int, int], *, arrives: bool
) -> None:
    (left, right), (top, bottom) = sides, ends
    inner = right - left - 1
    title = f" {box.title} " if box.title else ""
    canvas.write(left, top, "╭" + title + "─" * (inner - cell_len(title)) + "╮", box.style)
    for y in range(top + 1, bottom):
        canvas.write(left, y, "│", box.style)
        canvas.write(right, y, "│", box.style)
    canvas.write(left + 2, top + 1, box.first, box.style)
    canvas.write(left + 2, top + 2, box.second, "")
    if arrives:
        canvas.write(left - 1, top + ENTERS, "▶", LINE_STYLE)
    canvas.write(left, bottom, "╰" + "─" * inner + "╯", box.style)


def _tracks(plan: Layout, at: int, rows: Mapping[Spot, int]) -> list[_Track]:
    """One track per target with several sources, and one for all targets with the same source."""
    joined: dict[Spot, list[Spot]] = {}
    for path in plan.paths.values():
        for up, down in pairwise(path):
            if up.layer == at and up not in joined.setdefault(down, []):
                joined[down].append(up)
    tracks: dict[Spot, _Track] = {}
    for target, sources in joined.items():
        root = sources[0] if len(sources) == 1 else target
        tracks.setdefault(root, _Track(sources, [])).targets.append(target)
    return sorted(
        tracks.values(),
        key=lambda track: sum(rows[spot] for spot in track.targets) / len(track.targets),
    )


def _side_by_side(tracks: list[_Track], rows: Mapping[Spot, int], tall: int) -> None:
    """Assign rows and columns to tracks; tracks that do not overlap may share a column."""
    used: Counter[Spot] = Counter()
    for track in tracks:
        track.enters = [rows[spot] * tall + ENTERS for spot in track.targets]
        track.leaves = [rows[spot] * tall + LEAVES + used[spot] for spot in track.sources]
        used.update(track.sources)
    free: list[int] = []
    for track in sorted(tracks, key=lambda track: (track.top, track.bottom)):
        track.column = next(
            (index for index, bottom in enumerate(free) if bottom < track.top - 1), len(free)
        )
        free[track.column : track.column + 1] = [track.bottom]


def _route(canvas: Canvas, track: _Track, tracks: list[_Track], start: int, end: int) -> None:
    def x_of(other: _Track) -> int:
        return start + 1 + other.column * 2

    def beneath(y: int) -> frozenset[int]:
        return frozenset(
            x_of(other) for other in tracks if other is not track and other.top < y < other.bottom
        )

    x = x_of(track)
    canvas.down(x, track.top, track.bottom)
    for y in track.leaves:
        canvas.across(y, start, x, beneath(y))
        canvas.stroke(start, y, LEFT | RIGHT)
    for y in track.enters:
        canvas.across(y, x, end, beneath(y))
        canvas.stroke(end, y, LEFT | RIGHT)
