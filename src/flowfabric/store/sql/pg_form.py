"""What the Postgres renderer produces for a form, and what may precede a sweep."""

from __future__ import annotations

from msgspec import Struct


class WakePosition(Struct, frozen=True):
    """The positions of the key and the time of a wake-up.

    A position counts among the arguments, or from the end of the answer row when it is negative.
    """

    topic: str
    key: int | None
    at: int | None


class PgForm(Struct, frozen=True):
    """The statement of a form and how to call it.

    An answer row begins with the time and the plan's ordinal (for a sweep the ordinal of the
    request and of the row, for a plain insert the key of the new row). Then come `returning`, one
    trap per step of `refusable`, and the columns that the wake-ups need.
    """

    sql: str
    single: str | None
    """The same for one plan of a `counted` insert: plain parameters, answered by the time."""
    optimistic: str | None
    """A `counted` insert that raises a unique violation when one row exists already."""
    probe: str | None
    """Whether any row matches what a sweep selects by."""
    kinds: tuple[str, ...]
    """The kinds of the arguments."""
    arrays: tuple[int, ...]
    """Positions of the arguments that are sent as arrays."""
    drawn: int
    """How many new uuids a sweep writes in a row; the caller sends their bytes."""
    key: tuple[int, ...]
    """Positions of the arguments that name the deciding row."""
    returned: tuple[int, int]
    returned_kinds: tuple[str, ...]
    refusable: tuple[int, ...]
    """Steps behind the deciding one that can refuse the plan."""
    wakes: tuple[WakePosition, ...]
    channels: tuple[str, ...]
    answer_key: int
    """How many key columns a plain insert answers with."""
    counted: bool
    """An insert answered by one row: the time, the count, and the keys unless all were new."""
    packed: bool
    """An argument that all plans share is sent as an array of one."""
    unbatchable: bool
    """The statement carries one plan only."""
    items: tuple[tuple[str, str], ...] = ()
    """Names and kinds of the parts of an `InsertEach` item."""


class Lead(Struct, frozen=True):
    """Parts of a statement in front of a sweep; the last is `f`, their arguments come last.

    The rows of `f` are returned, with nulls, even when the sweep picked nothing. When `decides` is
    true, the sweep runs only if `f` has a row. Otherwise the row of `f` takes the place of the
    time, and the sweep reads the clock after `f`: `f` may wait for locks, and the leases that the
    sweep grants start after that.
    """

    parts: tuple[str, ...]
    decides: bool
