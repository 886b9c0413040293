"""Writes the pages that are made from code: states.md, pairs.md, the reference of cli.md and the
pictures of architecture.md.

`--check` fails when a page is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests import pairs

from docs import commands, pictures
from flowfabric.rules.states import TRANSITIONS, VECTORS, Vector

HERE = Path(__file__).parent

_INTRO = """# States

<!-- Made by `make docs` from src/flowfabric/rules/states.py. Change that file, not this one. -->

An execution is always in exactly one of these states. The first column is our name for it; the
second is what users and the API see. Every state that is not the end names who takes it further, so
nothing can be stranded.

"""


def states() -> str:
    return _INTRO + _diagram() + _table() + _words()


def pages() -> dict[Path, str]:
    return {
        HERE / "states.md": states(),
        HERE / "pairs.md": pairs.page(pairs.collect()),
        commands.PAGE: commands.page(),
        HERE / "layers.svg": pictures.layers(),
        HERE / "path.svg": pictures.path(),
    }


def _diagram() -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    for source, by, target in TRANSITIONS:
        lines.append(f"    {source or '[*]'} --> {target}: {by}")
    lines += [
        "    ENDED --> [*]: retention",
        "```",
        "",
        "Any state but ENDED is also left by cancel and by the execution's deadline, for ENDED.",
        "",
    ]
    return "\n".join(lines) + "\n"


def _table() -> str:
    rows = ["| state | shown as | it | left by |", "|---|---|---|---|"]
    for vector in VECTORS.values():
        shown = (
            f"`{vector.public_state}`"
            if vector.public_state
            else "`completed`, `failed`, `cancelled`, `expired` or `skipped`"
        )
        rows.append(f"| {vector.name} | {shown} | {vector.meaning} | {vector.leaves_by} |")
    return "\n".join(rows) + "\n\n"


def _words() -> str:
    lines = [
        "## The stored vector",
        "",
        (
            "Six columns of `ff_exec_core` make up the state; where several words are listed, "
            "any of "
            "them may stand there."
        ),
        "",
    ]
    lines += [
        (
            "| state | lifecycle_phase | ownership_state | eligibility_state | blocking_reason | "
            "terminal_outcome | attempt_state |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_vector_row(vector) for vector in VECTORS.values()]
    lines += [
        "",
        (
            "A cancelled execution holds `cancelled` in its `lifecycle_phase` column; through the "
            "API its phase reads `terminal`."
        ),
        "",
    ]
    return "\n".join(lines)


def _vector_row(vector: Vector) -> str:
    cells = (
        (vector.lifecycle_phase,),
        (vector.ownership_state,),
        (vector.eligibility_state,),
        vector.blocking_reasons,
        vector.outcomes,
        vector.attempt_states,
    )
    return (
        f"| {vector.name} | "
        + " | ".join(", ".join(f"`{word}`" for word in words) for words in cells)
        + " |"
    )


def main() -> None:
    for path, text in pages().items():
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"docs/{path.name} is out of date: run `make docs`")


if __name__ == "__main__":
    main()
