"""Arguments that are results of other runs: their stored form, and the runs they are read from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.sdk.exceptions import PayloadError

if TYPE_CHECKING:
    from flowfabric.model.execution import ExecutionOutcome
    from flowfabric.sdk.session import Session

SUCCEEDED, FIRST = "succeeded", "first"
CHOICE = "$results"
Stored = str | list[str] | dict[str, list[str]]
"""An argument that is a result: one run, a list of runs, or a list with its choice as the key."""
Read = Callable[[ExecutionId], Awaitable["ExecutionOutcome | None"]]


class Wanted(Struct, frozen=True):
    """The runs behind one argument.

    Without `choose`, all of them; with `succeeded`, those that succeeded; with `first`, the one
    that succeeded first.
    """

    idents: tuple[ExecutionId, ...]
    is_list: bool
    choose: str = ""


def results_wanted(later: Mapping[str, Stored]) -> dict[str, Wanted]:
    return {name: _wanted(stored) for name, stored in later.items()}


def _wanted(stored: Stored) -> Wanted:
    if isinstance(stored, dict):
        ((choose, texts),) = stored.items()
        return Wanted(tuple(map(ExecutionId, texts)), choose == SUCCEEDED, choose)
    texts = stored if isinstance(stored, list) else [stored]
    return Wanted(tuple(map(ExecutionId, texts)), isinstance(stored, list))


async def chosen(session: Session, wanted: Mapping[str, Wanted], read: Read) -> dict[str, Wanted]:
    """Resolves every `choose`. The choice is recorded: a later success does not change it."""
    undecided = {name: each for name, each in wanted.items() if each.choose}
    if not undecided:
        return dict(wanted)

    async def choose() -> dict[str, list[str]]:
        return {
            name: [str(ident) for ident in await _choice(session, each, read)]
            for name, each in undecided.items()
        }

    kept = await session.once(CHOICE, choose, dict[str, list[str]])
    made = {
        name: Wanted(tuple(map(ExecutionId, kept[name])), each.is_list)
        for name, each in undecided.items()
    }
    return {**wanted, **made}


async def _choice(session: Session, wanted: Wanted, read: Read) -> list[ExecutionId]:
    outcomes = [(ident, await read(ident)) for ident in wanted.idents]
    good = [
        (ident, found)
        for ident, found in outcomes
        if found is not None and found.terminal_outcome == "success"
    ]
    if not good:
        raise PayloadError(
            f"task {session.task}: an argument is the result of one of {len(outcomes)} runs, "
            "and none of them has succeeded"
        )
    if wanted.choose == FIRST:
        return [min(good, key=lambda each: each[1].terminal_at_ms or 0)[0]]
    return [ident for ident, _ in good]
