"""Arguments that are the results of other runs: what is stored in their place, and which runs are read when the task begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.sdk.exceptions import PayloadError

if TYPE_CHECKING:
    from flowfabric.model.execution import ExecutionOutcome
    from flowfabric.sdk.context import Context

SUCCEEDED, FIRST = "succeeded", "first"
CHOICE = "$results"
Read = Callable[[ExecutionId], Awaitable["ExecutionOutcome | None"]]


class Wanted(Struct, frozen=True):
    """The runs behind one argument: a run, a list of runs, those of a list that `succeeded`, or the `first` that did."""

    idents: tuple[ExecutionId, ...]
    is_list: bool
    choose: str = ""


def results_wanted(later: Mapping[str, Any]) -> dict[str, Wanted]:
    return {name: _wanted(stored) for name, stored in later.items()}


def _wanted(stored: Any) -> Wanted:
    if isinstance(stored, dict):
        ((choose, texts),) = stored.items()
        return Wanted(tuple(map(ExecutionId, texts)), choose == SUCCEEDED, choose)
    texts = stored if isinstance(stored, list) else [stored]
    return Wanted(tuple(map(ExecutionId, texts)), isinstance(stored, list))


async def chosen(ctx: Context, wanted: Mapping[str, Wanted], read: Read) -> dict[str, Wanted]:
    """With the choice made where there is one. It is kept with the run: others that succeed later do not change the arguments."""
    open_ones = {name: each for name, each in wanted.items() if each.choose}
    if not open_ones:
        return dict(wanted)

    async def choose() -> dict[str, list[str]]:
        return {
            name: [str(ident) for ident in await _choice(ctx, each, read)]
            for name, each in open_ones.items()
        }

    kept = await ctx.once(CHOICE, choose, dict[str, list[str]])
    made = {
        name: Wanted(tuple(map(ExecutionId, kept[name])), each.is_list)
        for name, each in open_ones.items()
    }
    return {**wanted, **made}


async def _choice(ctx: Context, wanted: Wanted, read: Read) -> list[ExecutionId]:
    outcomes = [(ident, await read(ident)) for ident in wanted.idents]
    good = [
        (ident, found)
        for ident, found in outcomes
        if found is not None and found.terminal_outcome == "success"
    ]
    if not good:
        raise PayloadError(
            f"task {ctx.task}: a result of one of {len(outcomes)} runs is wanted, and none of them has succeeded"
        )
    if wanted.choose == FIRST:
        return [min(good, key=lambda each: each[1].terminal_at_ms or 0)[0]]
    return [ident for ident, _ in good]
