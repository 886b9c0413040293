"""The pictures of docs/architecture.md, as SVG."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

FONT = 'font-family="system-ui, sans-serif"'
INK, LINE, PAPER = "#1f2937", "#64748b", "#ffffff"
TINTS = {
    "user": "#e0f2fe",
    "edge": "#ede9fe",
    "engine": "#fef3c7",
    "pure": "#dcfce7",
    "store": "#fee2e2",
}


@dataclass
class Canvas:
    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def box(
        self, at: tuple[int, int, int, int], title: str, text: str = "", tint: str = ""
    ) -> None:
        x, y, w, h = at
        fill = TINTS.get(tint, PAPER)
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="8" fill="{fill}" stroke="{LINE}"/>'
        )
        lines = text.split("\n") if text else []
        top = y + (h - 18 * len(lines)) / 2 + 5
        self.words(x + w / 2, top, title, bold=True)
        for number, line in enumerate(lines, 1):
            self.words(x + w / 2, top + 18 * number, line, size=12)

    def words(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: int = 14,
        bold: bool = False,
        anchor: str = "middle",
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" {FONT} font-size="{size}" fill="{INK}" '
            f'text-anchor="{anchor}"{weight}>{escape(text)}</text>'
        )

    def arrow(self, start: tuple[int, int], end: tuple[int, int], text: str = "") -> None:
        (x1, y1), (x2, y2) = start, end
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="1.5" '
            'marker-end="url(#tip)"/>'
        )
        if text:
            self.words((x1 + x2) / 2, (y1 + y2) / 2 - 6, text, size=12)

    def svg(self, title: str) -> str:
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" '
                f'height="{self.height}" '
                f'viewBox="0 0 {self.width} {self.height}" role="img">',
                f"<title>{escape(title)}</title>",
                '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
                f'markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{LINE}"/>'
                "</marker></defs>",
                f'<rect width="{self.width}" height="{self.height}" fill="{PAPER}"/>',
                *self.parts,
                "</svg>",
                "",
            )
        )


def layers() -> str:
    """Packages, and who imports whom: always downwards."""
    canvas = Canvas(860, 560)
    canvas.box((20, 20, 250, 56), "sdk, sync", "tasks, runs, workers", "user")
    canvas.box((305, 20, 250, 56), "cli", "flowfabric ...", "user")
    canvas.box((590, 20, 250, 56), "server", "routes, tenancy, pages", "user")
    canvas.box((20, 110, 250, 56), "connect", "URL to engine: knows the stores", "edge")
    canvas.box(
        (305, 110, 250, 56), "middleware, observe", "around an engine; metrics, traces", "edge"
    )
    canvas.box((590, 110, 250, 56), "remote, wire", "an engine over HTTP", "edge")
    canvas.box(
        (20, 200, 820, 60), "engine", "core: load, decide, commit; parts by family", "engine"
    )
    canvas.box((20, 290, 250, 56), "loops", "timers, reconcilers, retention", "engine")
    canvas.box((305, 290, 535, 56), "rules", "pure: snapshot and request to a decision", "pure")
    canvas.box(
        (305, 376, 535, 56), "plan, model, codec, ids, errors", "what exists, in types", "pure"
    )
    canvas.box((20, 376, 250, 56), "store.port", "14 methods", "store")
    canvas.box((20, 466, 190, 70), "memory", "reference", "store")
    canvas.box((230, 466, 190, 70), "sqlite", "one writer thread", "store")
    canvas.box((440, 466, 190, 70), "postgres", "coalescer, notifier", "store")
    canvas.box((650, 466, 190, 70), "sql", "forms as statements", "store")
    for x in (145, 430, 715):
        canvas.arrow((x, 76), (x, 108))
        canvas.arrow((x, 166), (x, 198))
    canvas.arrow((570, 260), (570, 288))
    canvas.arrow((570, 346), (570, 374))
    canvas.arrow((145, 288), (145, 262))
    canvas.arrow((290, 260), (290, 404))
    canvas.arrow((290, 404), (272, 404))
    for x in (115, 325, 535):
        canvas.arrow((x, 466), (min(x, 145), 434))
    return canvas.svg("Layers of FlowFabric; imports point downwards")


PATH = (
    ("create_execution", "row, idempotency key", "READY"),
    ("claim_many", "lease, epoch + 1, attempt", "RUNNING"),
    ("renew, progress, steps", "under the fence", "RUNNING"),
    ("complete", "result, completion event", "ENDED"),
    ("cascade", "edges counted, next members released", "READY (others)"),
    ("retention", "rows and events removed", "gone"),
)


def path() -> str:
    """One execution from create to removal: the operation, what its commit writes, the state after
    it.
    """
    row, width = 84, 860
    canvas = Canvas(width, 70 + row * len(PATH))
    for x, title in ((170, "operation"), (470, "one commit writes"), (735, "state")):
        canvas.words(x, 32, title, bold=True)
    for number, (operation, writes, state) in enumerate(PATH):
        y = 52 + row * number
        canvas.box((40, y, 260, 52), operation, tint="engine")
        canvas.box((350, y, 240, 52), writes, tint="store")
        canvas.box((640, y, 190, 52), state, tint="pure")
        canvas.arrow((300, y + 26), (348, y + 26))
        canvas.arrow((590, y + 26), (638, y + 26))
        if number + 1 < len(PATH):
            canvas.arrow((170, y + 52), (170, y + row))
    return canvas.svg("The path of an execution")
