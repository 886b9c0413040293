"""Migrations of large tables: steps that are committed one by one, with their progress.

A file with lines such as `-- step: batches ff_exec_core (partition_key, execution_id) 5000` is
made of steps. A crash loses at most the batch that was not committed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

BATCH = "{batch}"
"""In the statement of a `batches` step, the condition for the rows of one batch."""
SMALLEST_BATCH = 100
REST = 0.5
"""The pause after a batch, as a share of the time it took."""
LONGEST_REST_S = 1.0
_MARK = re.compile(r"^-- step: (.+)$", re.M)
_BATCHES = re.compile(r"batches (\w+) \((\w+(?:, \w+)*)\) (\d+)")
_INDEX = re.compile(r"index (\w+)")


class Step(Struct, frozen=True):
    """`run` is one transaction. `batches` walks `target`, a table, by `keys`. `index` builds
    `target` beside traffic, where the store can do so.
    """

    kind: Literal["run", "batches", "index"]
    sql: str
    target: str = ""
    keys: tuple[str, ...] = ()
    size: int = 0

    def batch(self, after: str, upto: str) -> str:
        """The statement for the rows above one key and up to another, both as SQL."""
        return self.sql.replace(BATCH, f"({self.above(after)} AND {self._row} <= {upto})")

    def above(self, after: str) -> str:
        return f"{self._row} > {after}" if after else "true"

    def last_of_batch(self, literal: str, after: str, size: int) -> str:
        """Selects the key that ends the next batch, as SQL."""
        keys = ", ".join(self.keys)
        down = ", ".join(f"{key} DESC" for key in self.keys)
        rows = f"SELECT {keys} FROM {self.target} WHERE {self.above(after)} ORDER BY {keys}"  # noqa: S608
        return f"SELECT {literal} FROM ({rows} LIMIT {size}) AS batch ORDER BY {down} LIMIT 1"  # noqa: S608

    @property
    def whole(self) -> str:
        """The step as one statement, for a database without rows or traffic."""
        return self.sql.replace(BATCH, "true").replace(" CONCURRENTLY", "")

    @property
    def _row(self) -> str:
        return f"({', '.join(self.keys)})"


class Progress(Struct, frozen=True):
    """`rows` were changed by the current step so far, of about `of` rows if that is known."""

    title: str
    step: int
    steps: int
    rows: int
    of: int | None = None

    def __str__(self) -> str:
        total = "" if self.of is None else f" of about {self.of}"
        return f"{self.title}: step {self.step} of {self.steps}, {self.rows} rows{total}"


Report = Callable[[Progress], None]


def no_report(_: Progress) -> None:
    return


class Position(Struct, frozen=True):
    """The number of finished steps, and where the next one continues."""

    done: int = 0
    after: str = ""
    rows: int = 0

    def next_step(self) -> Position:
        return Position(self.done + 1)

    def moved(self, upto: str, changed: int) -> Position:
        return Position(self.done, upto, self.rows + changed)


def steps_of(sql: str) -> tuple[Step, ...]:
    """Empty for a migration that is one transaction."""
    parts = _MARK.split(sql)
    return tuple(
        _step(mark, text.strip()) for mark, text in zip(parts[1::2], parts[2::2], strict=True)
    )


def _step(mark: str, sql: str) -> Step:
    if mark == "run":
        return Step("run", sql)
    index = _INDEX.fullmatch(mark)
    if index is not None:
        return Step("index", sql.rstrip(";"), index[1])
    found = _BATCHES.fullmatch(mark)
    assert found is not None, f"a step is run, index NAME or batches TABLE (KEYS) SIZE, not {mark}"
    assert BATCH in sql, f"the statement of a batch contains {BATCH}"
    return Step("batches", sql.rstrip(";"), found[1], tuple(found[2].split(", ")), int(found[3]))
